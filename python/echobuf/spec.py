"""Specs of examples: fields, the structure of a pytree, and the paths of its leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from echobuf import _core, device_arrays, device_views, hints
from echobuf.device_arrays import is_on_device
from echobuf.errors import SpecError, message
from echobuf.errors import show as show_value
from echobuf.field import Field, is_ragged, why_not_storable
from echobuf.trees import (
    are_none,
    difference,
    flatten_up_to,
    flatten_with_objects,
    flatten_with_paths,
    is_namedtuple,
    leaves_of,
    one_level,
    show,
    unflatten_with_objects,
)

if TYPE_CHECKING:
    import optree


_FEW_ELEMENTS = 3  # of a list that are named one by one

# Formats of the numbers in a buffer (PEP 3118), of whatever byte order.
_NUMBERS = {"?", *"bBhHiIlLqQnN", *"efd", "Zf", "Zd"}


@dataclass(frozen=True)
class Spec:
    """The structure, paths and fields of one example (or one whole batch)."""

    treespec: optree.PyTreeSpec  # the structure
    fields: tuple[Field, ...]  # the leaves, in the order of the structure
    # Where in the structure, such as `['image']`; messages put the name of the whole
    # before it
    paths: tuple[str, ...]
    # Of a whole batch, the extent of axis 0 of all fields, which what is put may fall
    # short of; `()` where a record is one example
    batch_axis: tuple[int, ...] = ()

    @property
    def most_examples(self) -> int:
        """The most examples of a record."""
        return self.batch_axis[0] if self.batch_axis else 1

    @property
    def is_ragged(self) -> bool:
        """True if the length of some leaf varies from example to example."""
        return any(is_ragged(field) for field in self.fields)

    def flatten(self, tree: Any, what: str) -> list[Any]:
        """Return the leaves of `tree`, which must have the structure of the spec."""
        try:
            return leaves_of(tree, self.treespec)
        except (ValueError, TypeError) as error:
            why = difference(tree, self.treespec, what) or message(error)
            raise SpecError(
                f"`{what}` has another structure than `spec`: {why} The spec is "
                f"{describe(self)}.{about_lists(tree, what)}"
            ) from None


def describe(spec: Spec) -> str:
    """Return the spec in one line, as `{'image': uint8[3, 4], 'label': int64[]}`."""
    leaves = (f"{field.dtype}{list(field.shape)}" for field in spec.fields)
    return show(spec.treespec, leaves)


def make_spec(spec: Any) -> Spec:
    """Read a pytree of `Field`s and arrays."""
    paths, leaves, treespec = flatten_with_paths(
        spec, is_leaf=lambda node: isinstance(node, Field)
    )
    if not leaves:
        raise SpecError(
            f"`spec` is {spec!r}, which has no leaves; give at least one `Field` or "
            "array."
        )
    try:
        fields = first_arrays(spec, leaves, paths, "spec", _as_field)
    except SpecError as error:
        if all(isinstance(leaf, Field) or is_array(leaf) for leaf in leaves):
            raise
        raise SpecError(
            "an `EchoBuffer` takes arrays alone; an `EchoLoader` carries other leaves. "
            f"{message(error)}"
        ) from error.__cause__
    return Spec(treespec, tuple(fields), tuple(paths))


def make_record_spec(spec: Any, *, unit: str) -> Spec:
    """Read a pytree of `Field`s and arrays as that of a record of a buffer.

    Args:
        spec: of one example; with `unit="batch"`, of one whole batch.
        unit: that is echoed.

    Raises:
        SpecError: as `make_spec`; or the axes are not those of such a record.
    """
    made = make_spec(spec)
    if unit == "example":
        _check_example_axes(made)
        return made
    _check_batch_axis(made)
    return replace(made, batch_axis=made.fields[0].shape[:1])


def _check_example_axes(spec: Spec) -> None:
    """Raise `SpecError` if another axis than 0 of a leaf, of one example, varies."""
    for field, path in zip(spec.fields, spec.paths, strict=True):
        if None in field.shape[1:]:
            raise SpecError(
                f"`spec{path}` has shape {list(field.shape)}; with unit='example' only "
                "axis 0 may be None. Move the axis whose length varies to the front, "
                "or pad the others. (With unit='batch' axis 0 is that of the batch.)"
            )


def _check_batch_axis(spec: Spec) -> None:
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
    """Return a leaf of the first item as an array; refuse a table.

    Of an array on a device, one without values: its shape and dtype are asked for.
    """
    line = hints.of_columns(leaf)
    if line:
        raise SpecError(
            f"`{name}` is of type {type(leaf).__name__}, a table of columns, not an "
            f"array. {line}"
        )
    if is_on_device(leaf):
        return device_views.like(leaf, name)
    return as_array(leaf, name)


def first_arrays(
    item: Any,
    leaves: Iterable[Any],
    paths: Iterable[str],
    what: str,
    read: Callable[[Any, str], Any] = as_first_array,
) -> list[Any]:
    """Return the leaves of the first item as arrays."""
    arrays: list[Any] = []
    errors: list[tuple[str, object, SpecError]] = []
    for leaf, path in zip(leaves, paths, strict=True):
        try:
            arrays.append(read(leaf, what + path))
        except SpecError as error:
            errors.append((what + path, type(leaf), error))
    if errors:
        raise of_all_leaves(errors) from errors[0][2].__cause__
    if not arrays:
        raise SpecError(
            f"`{what}`, the first item of upstream, is {show_value(item)}, which has "
            f"no leaves; yield at least one array.{about_lists(item, what)}"
            f"{hints.of_nothing(item, what)}"
        )
    return arrays


def of_all_leaves(errors: list[tuple[str, object, SpecError]]) -> SpecError:
    """Return one error of those of several leaves.

    It has the messages of the first leaf of each kind, and the names of the others.

    Args:
        errors: name, kind (its type, or its dtype) and error of each leaf.
    """
    if len(errors) == 1:
        return errors[0][2]
    firsts: dict[object, str] = {}
    rest: dict[str, None] = {}
    for name, kind, error in errors:
        if kind in firsts:
            rest[_in_list(name, [other for other, _, _ in errors])] = None
        else:
            firsts[kind] = message(error)
    if not rest:
        return SpecError(" ".join(firsts.values()))
    names = ", ".join(f"`{name}`" for name in rest)
    return SpecError(f"{' '.join(firsts.values())} At fault, too: {names}.")


def refuse_dtypes(framework: str, lacking: dict[str, np.dtype[Any]]) -> None:
    """Raise `SpecError` for leaves whose dtypes a framework lacks, if there are any."""
    errors: list[tuple[str, object, SpecError]] = []
    for path, dtype in lacking.items():
        name = f"example{path}"
        error = SpecError(
            f"`{name}` has dtype {hints.name_of(dtype)}, which {framework} does not "
            f"have. {hints.to_convert(dtype)}"
        )
        errors.append((name, dtype, error))
    if errors:
        raise of_all_leaves(errors)


def _in_list(name: str, names: list[str]) -> str:
    """Return the name of a leaf; one for all elements of a list with many of them."""
    parent, _, index = name.rpartition("[")
    if not index[:-1].isdigit():
        return name
    siblings = sum(other.rpartition("[")[0] == parent for other in names)
    return f"{parent}[:]" if siblings > _FEW_ELEMENTS else name


def as_array(leaf: Any, name: str) -> np.ndarray[Any, Any]:
    """Return the leaf as a NumPy array, without a copy where that is possible.

    Python numbers become what NumPy makes of them: int64, float64, bool, complex128.
    """
    if isinstance(leaf, np.ma.MaskedArray) and np.ma.is_masked(leaf):
        raise SpecError(
            f"`{name}` is a masked array, whose mask would be lost; fill it, "
            "`x.filled(0)`, or make the mask a leaf of its own, `x.mask`."
        )
    if isinstance(leaf, np.ndarray):
        array = np.asarray(leaf)  # of subclasses, the plain array
    elif is_on_device(leaf):
        raise device_arrays.on_cpu_refused(leaf, name)
    elif not is_numeric(leaf):
        raise SpecError(
            f"`{name}` is of type {type(leaf).__name__}, not an array. "
            f"{hints.to_store(leaf) or _CONVERT}"
        )
    else:
        array = _convert(leaf, name)
    why = why_not_storable(array.dtype)
    if why:
        line = hints.to_store(leaf)
        raise SpecError(f"`{name}` has dtype {array.dtype}: {why} {line}".rstrip())
    return array


_CONVERT = "Convert it to a NumPy array or a tensor of numbers."


def is_array(leaf: Any) -> bool:
    """Return True for what `is_numeric`, and for arrays on a device."""
    return is_numeric(leaf) or is_on_device(leaf)


def is_numeric(leaf: Any) -> bool:
    """Return True for what NumPy makes an array of numbers of, but for its arrays."""
    if isinstance(leaf, bool | int | float | complex | np.generic):
        return True
    # The class is asked: where `__getattr__` is `__getitem__` an instance may raise.
    if any(hasattr(type(leaf), name) for name in ("__array__", "__array_interface__")):
        return not hints.holds_objects(leaf)
    return _lends_numbers(leaf)


def shape_of(leaf: Any) -> tuple[Any, ...]:
    """Return the shape of an array; () for what has none."""
    try:
        return tuple(leaf.shape)
    except Exception:  # instances whose `__getattr__` raises what it likes
        return device_views.shape_of(leaf) if is_on_device(leaf) else ()


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
            + (hints.to_store(leaf) or "Convert it first.")
        ) from error


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


def make_structure(
    treespec: optree.PyTreeSpec, *, carries: bool = False
) -> _core.Structure:
    """Return what takes trees of this structure apart, and puts them together.

    Args:
        treespec: the structure.
        carries: None in it stands for any object.
    """
    if not carries:
        leaves = [False] * treespec.num_leaves
        return _core.Structure(
            _describe(treespec, "none"),
            lambda tree: flatten_up_to(tree, treespec),
            treespec.unflatten,
            leaves,
        )
    return _core.Structure(
        _describe(treespec, "carried"),
        lambda tree: flatten_with_objects(tree, treespec),
        lambda leaves: unflatten_with_objects(leaves, treespec),
        are_none(treespec),
    )


def _describe(treespec: optree.PyTreeSpec, none: str) -> tuple[Any, ...] | None:
    """Return the nodes as the core takes them; None if some are only optree's."""
    if treespec.type is None:
        return ("leaf",)
    if treespec.type is type(None):
        return (none,)
    children = tuple(_describe(child, none) for child in treespec.children())
    if None in children:
        return None
    if treespec.type is dict:
        keys = tuple(treespec.entries())
        placed = one_level(treespec).unflatten(keys)
        order = [keys.index(key) for key in placed]
        return ("dict", children, keys, order)
    if treespec.type in (tuple, list):
        return (treespec.type.__name__, children)
    if is_namedtuple(treespec):
        return ("namedtuple", children, treespec.type)
    return None
