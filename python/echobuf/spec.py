"""Specs of examples: fields, the structure of a pytree, and the paths of its leaves."""

from __future__ import annotations

import pickle
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from echobuf import _core, hints
from echobuf.errors import SpecError, message
from echobuf.field import Field, is_ragged, why_not_storable

if TYPE_CHECKING:
    import optree


# The namespace of optree in which nodes of others (JAX) are registered, beside its own.
NAMESPACE = "echobuf"

# Formats of the numbers in a buffer (PEP 3118), of whatever byte order.
_NUMBERS = {"?", *"bBhHiIlLqQnN", *"efd", "Zf", "Zd"}


@dataclass(frozen=True)
class Spec:
    """The structure, paths and fields of one example (or one whole batch).

    Attributes:
        treespec: the structure.
        fields: the leaves, in the order of the structure.
        paths: where in the structure, such as `['image']`; messages put the name of
            the whole before it.
    """

    treespec: optree.PyTreeSpec
    fields: tuple[Field, ...]
    paths: tuple[str, ...]

    @property
    def is_ragged(self) -> bool:
        """True if the length of some leaf varies from example to example."""
        return any(is_ragged(field) for field in self.fields)

    def flatten(self, tree: Any, what: str) -> list[Any]:
        """Return the leaves of `tree`, which must have the structure of the spec."""
        try:
            return leaves_of(tree, self.treespec)
        except (ValueError, TypeError) as error:
            raise SpecError(
                f"`{what}` has another structure than `spec`: {message(error)} The "
                f"spec is {describe(self)}.{about_lists(tree, what)}"
            ) from None


def describe(spec: Spec) -> str:
    """Return the spec in one line, as `{'image': uint8[3, 4], 'label': int64[]}`."""
    leaves = (f"{field.dtype}{list(field.shape)}" for field in spec.fields)
    return _show(spec.treespec, leaves)


def _show(treespec: optree.PyTreeSpec, leaves: Iterator[str]) -> str:
    kind = treespec.type
    if kind is None:
        return next(leaves)
    children = [_Shown(_show(child, leaves)) for child in treespec.children()]
    if kind in _BUILT_IN:
        return repr(one_level(treespec).unflatten(children))
    entries = getattr(kind, "_fields", None) or treespec.entries()
    if issubclass(kind, Mapping):
        return repr(dict(zip(entries, children, strict=True)))
    if issubclass(kind, Sequence) and not issubclass(kind, tuple):
        return repr(children)
    named = (f"{name}={child}" for name, child in zip(entries, children, strict=True))
    return f"{kind.__name__}({', '.join(named)})"


class _Shown(str):
    """A text whose `repr` is the text."""

    __slots__ = ()
    __repr__ = str.__str__


# ---- trees of what stands for leaves

_BUILT_IN = (type(None), dict, list, tuple, OrderedDict, defaultdict, deque)

# Classes that JAX has registered, and makes of whatever stands for leaves itself.
OF_JAX: set[type] = set()


class StandIns:
    """Stand-ins for the leaves of an item, such as `Field`s, and its structure.

    It stands for the item where that has containers of the caller's, which may look at
    what they are given: they are made of real leaves alone.
    """

    def __init__(self, treespec: optree.PyTreeSpec, leaves: list[Any]) -> None:
        self.treespec = treespec
        self.leaves = leaves

    def __repr__(self) -> str:
        return _show(self.treespec, map(repr, self.leaves))

    def __reduce__(self) -> tuple[Any, ...]:
        # The classes must be nodes where the structure is unpickled.
        from echobuf import nodes

        kinds = nodes.kinds_in(self.treespec)
        return nodes.restore, (kinds, pickle.dumps(self.treespec), self.leaves)


def stand_for(treespec: optree.PyTreeSpec, leaves: Iterable[Any]) -> Any:
    """Return an item with stand-ins as its leaves: a tree, or a `StandIns`."""
    return (
        treespec.unflatten(leaves)
        if _is_built_in(treespec)
        else StandIns(treespec, list(leaves))
    )


def map_leaves(
    convert: Callable[[Any], Any],
    item: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Return an item with what `convert` makes of each leaf as stand-ins."""
    leaves, treespec = flatten(item, is_leaf)
    return stand_for(treespec, map(convert, leaves))


def leaves_of(item: Any, treespec: optree.PyTreeSpec) -> list[Any]:
    """Return the leaves of an item.

    Raises:
        ValueError: it has another structure.
    """
    if isinstance(item, StandIns) and item.treespec == treespec:
        return item.leaves
    return cast("list[Any]", treespec.flatten_up_to(item))


def flatten(
    item: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], optree.PyTreeSpec]:
    """Return the leaves of an item, and its structure."""
    import optree

    if isinstance(item, StandIns):
        return item.leaves, item.treespec
    return optree.tree_flatten(item, is_leaf=is_leaf, namespace=NAMESPACE)


def _is_built_in(treespec: optree.PyTreeSpec) -> bool:
    kind = treespec.type
    if kind is None:
        return True
    is_one = kind in _BUILT_IN or kind in OF_JAX or _is_namedtuple(treespec)
    return is_one and all(map(_is_built_in, treespec.children()))


def one_level(treespec: optree.PyTreeSpec) -> optree.PyTreeSpec:
    """Return the structure of a node whose children are leaves."""
    level = treespec.one_level()
    assert level is not None  # it is no leaf
    return level


def flatten_with_paths(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[str], list[Any], optree.PyTreeSpec]:
    """Return the paths of leaves, such as `['image']`; the leaves; the structure."""
    import optree

    if isinstance(tree, StandIns):
        leaves, treespec = tree.leaves, tree.treespec
        accessors = treespec.accessors()
    else:
        accessors, leaves, treespec = optree.tree_flatten_with_accessor(
            tree, is_leaf=is_leaf, namespace=NAMESPACE
        )
    return [accessor.codify("") for accessor in accessors], leaves, treespec


def make_spec(spec: Any) -> Spec:
    """Read a pytree of `Field`s and arrays.

    Raises:
        SpecError: if it is empty, or a leaf is neither a `Field` nor an array of a
            dtype that can be stored.
    """
    paths, leaves, treespec = flatten_with_paths(
        spec, is_leaf=lambda node: isinstance(node, Field)
    )
    if not leaves:
        raise SpecError(
            f"`spec` is {spec!r}, which has no leaves; give at least one `Field` or "
            "array."
        )
    fields = tuple(
        _as_field(leaf, "spec" + path) for leaf, path in zip(leaves, paths, strict=True)
    )
    return Spec(treespec, fields, tuple(paths))


def check_example_axes(spec: Spec) -> None:
    """Raise `SpecError` if another axis than 0 of a leaf, of one example, varies."""
    for field, path in zip(spec.fields, spec.paths, strict=True):
        if None in field.shape[1:]:
            raise SpecError(
                f"`spec{path}` has shape {list(field.shape)}; with unit='example' only "
                "axis 0 may be None. Move the axis whose length varies to the front, "
                "or pad the others. (With unit='batch' axis 0 is that of the batch.)"
            )


def check_batch_axis(spec: Spec) -> None:
    """Raise `SpecError` unless all leaves, of a whole batch, are of one length."""
    for field, path in zip(spec.fields, spec.paths, strict=True):
        if field.shape[:1] == (None,):
            wanted = ["batch_size", *map(str, field.shape)]
            raise SpecError(
                f"`spec{path}` has shape {list(field.shape)}; with unit='batch' every "
                "shape includes the batch axis, as axis 0, which is not None: "
                f"Field(({', '.join(wanted)}), dtype) for a ragged leaf."
            )
        if is_ragged(field) and field.shape[0] == 0:
            raise SpecError(
                f"`spec{path}` has shape {list(field.shape)}, a batch of no examples; "
                "axis 0 must be >= 1."
            )
    extents = [field.shape[:1] for field in spec.fields]
    for extent, path in zip(extents, spec.paths, strict=True):
        if extent != extents[0] or not extent:
            raise SpecError(
                f"`spec{path}` has {list(extent)} as its batch axis, "
                f"`spec{spec.paths[0]}` has {list(extents[0])}; with unit='batch' "
                "every shape includes the batch axis, as axis 0, and it is the same "
                "for all leaves."
            )


def _as_field(leaf: Any, name: str) -> Field:
    if isinstance(leaf, Field):
        return leaf
    array = as_first_array(leaf, name)
    return Field(array.shape, array.dtype)


def as_first_array(leaf: Any, name: str) -> np.ndarray[Any, Any]:
    """Return a leaf of the first item as an array; refuse a table."""
    line = hints.of_columns(leaf)
    if line:
        raise SpecError(
            f"`{name}` is of type {type(leaf).__name__}, a table of columns, not an "
            f"array. {line}"
        )
    return as_array(leaf, name)


def as_array(leaf: Any, name: str) -> np.ndarray[Any, Any]:
    """Return the leaf as a NumPy array, without a copy where that is possible.

    Python numbers become what NumPy makes of them: int64, float64, bool, complex128.
    """
    if isinstance(leaf, np.ma.MaskedArray):
        raise SpecError(
            f"`{name}` is a masked array, whose mask would be lost; fill it, or make "
            "the mask a leaf of its own."
        )
    if isinstance(leaf, np.ndarray):
        array = np.asarray(leaf)  # of subclasses, the plain array
    elif not _is_numeric(leaf):
        raise SpecError(
            f"`{name}` is of type {type(leaf).__name__}, not an array. "
            + (
                hints.to_store(leaf, name)
                or "Convert it to a NumPy array or a tensor of numbers."
            )
        )
    else:
        array = _convert(leaf, name)
    why = why_not_storable(array.dtype)
    if why:
        line = hints.to_store(leaf, name)
        raise SpecError(f"`{name}` has dtype {array.dtype}: {why} {line}".rstrip())
    return array


def _is_numeric(leaf: Any) -> bool:
    if isinstance(leaf, bool | int | float | complex | np.generic):
        return True
    # The class is asked: where `__getattr__` is `__getitem__` an instance may raise.
    if any(hasattr(type(leaf), name) for name in ("__array__", "__array_interface__")):
        return True
    return _lends_numbers(leaf)


def shape_of(leaf: Any) -> tuple[Any, ...]:
    """Return the shape of an array; () for what has none."""
    try:
        return tuple(leaf.shape)
    except Exception:  # instances whose `__getattr__` raises what it likes
        return ()


def _lends_numbers(leaf: Any) -> bool:
    """Say if it has the buffer protocol, as `array.array` has; bytes are no numbers."""
    if isinstance(leaf, bytes | bytearray):
        return False
    try:
        with memoryview(leaf) as lent:
            are_bytes = isinstance(leaf, memoryview) and lent.format == "B"
            return lent.format.lstrip("@=<>") in _NUMBERS and not are_bytes
    except (TypeError, ValueError):  # it has none, or has been released
        return False


def _convert(leaf: Any, name: str) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(leaf)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise SpecError(
            f"`{name}` is a {type(leaf).__name__} that NumPy cannot read: "
            f"{message(error).rstrip('.')}. "
            + (hints.to_store(leaf, name) or "Convert it first.")
        ) from error


def copy_leaf(leaf: Any) -> Any:
    """Return a copy of an array: upstream may use its memory again."""
    if isinstance(leaf, np.ndarray | bytearray):
        return leaf.copy()
    if hints.is_of(leaf, "torch", "Tensor"):
        return leaf.detach().clone()
    if isinstance(leaf, memoryview) and leaf.format == "B" and leaf.ndim == 1:
        return memoryview(bytes(leaf))
    try:
        array = as_array(leaf, "example")
    except SpecError:  # which is raised later, with the leaf's name
        return leaf
    is_held = array.ndim and not hints.is_of(leaf, "jax", "Array")
    return array.copy() if is_held else leaf


def about_lists(tree: Any, what: str) -> str:
    """Return a hint about the first list of numbers in a tree, or ""."""
    paths, leaves, _ = flatten_with_paths(tree, is_leaf=_is_list_of_numbers)
    for path, leaf in zip(paths, leaves, strict=True):
        if _is_list_of_numbers(leaf):
            return (
                f" `{what}{path}` is a list, and each number in it a leaf. Make it one "
                "array: `np.asarray(x)` (datasets: `.with_format('numpy')`); padded to "
                "one length, or with `payload_bytes=` of a loader."
            )
    return ""


def _is_list_of_numbers(node: Any) -> bool:
    while isinstance(node, list):
        if not node:
            return True
        node = node[0]
        if isinstance(node, bool | int | float | complex):
            return True
    return False


def make_structure(treespec: optree.PyTreeSpec) -> _core.Structure:
    """Return what takes trees of this structure apart, and puts them together."""
    return _core.Structure(
        _describe(treespec),
        treespec.flatten_up_to,
        treespec.unflatten,
        treespec.num_leaves,
    )


def _describe(treespec: optree.PyTreeSpec) -> tuple[Any, ...] | None:
    """Return the nodes as the core takes them; None if some are only optree's."""
    if treespec.type is None:
        return ("leaf",)
    if treespec.type is type(None):
        return ("none",)
    children = tuple(_describe(child) for child in treespec.children())
    if None in children:
        return None
    if treespec.type is dict:
        keys = tuple(treespec.entries())
        placed = one_level(treespec).unflatten(keys)
        order = [keys.index(key) for key in placed]
        return ("dict", children, keys, order)
    if treespec.type in (tuple, list):
        return (treespec.type.__name__, children)
    if _is_namedtuple(treespec):
        return ("namedtuple", children, treespec.type)
    return None


def _is_namedtuple(treespec: optree.PyTreeSpec) -> bool:
    """Return True for a named tuple whose type is not registered as a node."""
    import optree

    return getattr(treespec, "kind", None) == optree.PyTreeKind.NAMEDTUPLE
