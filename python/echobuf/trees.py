"""Trees: items taken apart, and items with stand-ins for their leaves."""

from __future__ import annotations

import pickle
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import optree

# The namespace of optree in which nodes of others (JAX) are registered, beside its own.
NAMESPACE = "echobuf"

_BUILT_IN = (type(None), dict, list, tuple, OrderedDict, defaultdict, deque)
_DICTS = {dict, OrderedDict, defaultdict}  # of which optree takes one for another

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
        return show(self.treespec, map(repr, self.leaves))

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
    """Return the leaves of an item."""
    if isinstance(item, StandIns) and item.treespec == treespec:
        return item.leaves
    return flatten_up_to(item, treespec)


def flatten_up_to(item: Any, treespec: optree.PyTreeSpec) -> list[Any]:
    """Return the leaves of an item; raise `ValueError` if it has another structure."""
    try:
        return cast("list[Any]", treespec.flatten_up_to(item))
    except (ValueError, TypeError):
        raise
    except Exception:  # of the `repr` of something in it, for a message
        raise ValueError("its structure is another one") from None


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
    is_one = kind in _BUILT_IN or kind in OF_JAX or is_namedtuple(treespec)
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


# ---- structures in which None stands for a leaf that is carried, and is no array


def is_none(node: Any) -> bool:
    """Return True for None, which is a leaf where it is carried."""
    return node is None


def without(treespec: optree.PyTreeSpec, are_out: Iterable[bool]) -> optree.PyTreeSpec:
    """Return a structure with None in place of the leaves that are taken out."""
    import optree

    left = iter(are_out)
    none = optree.treespec_none(namespace=NAMESPACE)
    return optree.treespec_transform(
        treespec, None, lambda leaf: none if next(left) else leaf
    )


def flatten_with_objects(item: Any, treespec: optree.PyTreeSpec) -> list[Any]:
    """Return the leaves of an item, and what is in it where the structure has None."""
    if treespec.type in (None, type(None)):
        return [item]
    children = flatten_up_to(item, one_level(treespec))
    parts = map(flatten_with_objects, children, treespec.children())
    return [leaf for part in parts for leaf in part]


def unflatten_with_objects(leaves: Iterable[Any], treespec: optree.PyTreeSpec) -> Any:
    """Return the reverse of `flatten_with_objects`."""
    return _unflatten(iter(leaves), treespec)


def _unflatten(leaves: Iterator[Any], treespec: optree.PyTreeSpec) -> Any:
    if treespec.type in (None, type(None)):
        return next(leaves)
    children = [_unflatten(leaves, child) for child in treespec.children()]
    return one_level(treespec).unflatten(children)


def are_of_jax(treespec: optree.PyTreeSpec, beneath: bool = False) -> list[bool]:
    """Return, of each leaf, whether it is in a node of a class that JAX knows."""
    if treespec.type is None:
        return [beneath]
    beneath = beneath or treespec.type in OF_JAX
    return [
        each
        for child in treespec.children()
        for each in are_of_jax(child, beneath=beneath)
    ]


def are_none(treespec: optree.PyTreeSpec) -> list[bool]:
    """Return, of leaves and of None in a structure, which are None."""
    if treespec.type in (None, type(None)):
        return [treespec.type is not None]
    return [each for child in treespec.children() for each in are_none(child)]


def is_namedtuple(treespec: optree.PyTreeSpec) -> bool:
    """Return True for a named tuple whose type is not registered as a node."""
    import optree

    return getattr(treespec, "kind", None) == optree.PyTreeKind.NAMEDTUPLE


def paths_of_none(treespec: optree.PyTreeSpec, path: str = "") -> Iterator[str]:
    """Yield the paths of None in a structure, which is no leaf."""
    if treespec.type is type(None):
        yield path
    elif treespec.type is not None:
        accessors = one_level(treespec).accessors()
        for accessor, child in zip(accessors, treespec.children(), strict=True):
            yield from paths_of_none(child, path + accessor.codify(""))


# ---- in words


def difference(
    tree: Any, treespec: optree.PyTreeSpec, name: str, *, carries: bool = False
) -> str:
    """Return how the structure of an item is another one, in a sentence, or "".

    Args:
        tree: the item.
        treespec: the structure that it should have.
        name: of the item.
        carries: None in the structure stands for any object.
    """
    import optree

    kind: Any = treespec.type
    if kind is None or (carries and kind is type(None)):
        return ""
    if type(tree) is not kind and not {type(tree), kind} <= _DICTS:
        return (
            f"`{name}` is of type {type(tree).__name__}; the spec says "
            f"{kind.__name__}, and all items are of one class."
        )
    if kind is type(None):
        return ""
    children, level = optree.tree_flatten(
        tree, is_leaf=lambda node: node is not tree, namespace=NAMESPACE
    )
    entries, wanted = level.entries(), treespec.entries()
    if {*entries} != {*wanted}:
        missing = [each for each in wanted if each not in entries]
        more = [each for each in entries if each not in wanted]
        lacks = f" lacks the entries {missing}" if missing else ""
        has = f"{' and' if lacks else ''} has {more} beside them" if more else ""
        of_lists = _OF_LISTS if carries and kind is list else ""
        return f"`{name}`{lacks}{has}.{of_lists}"
    found = dict(zip(entries, children, strict=True))
    accessors = one_level(treespec).accessors()
    parts = zip(wanted, accessors, treespec.children(), strict=True)
    for entry, accessor, child in parts:
        line = difference(
            found[entry], child, name + accessor.codify(""), carries=carries
        )
        if line:
            return line
    return ""


_OF_LISTS = (
    " A list has a leaf for each entry, and as many in all items: one whose length "
    "varies is carried as one leaf inside of an object, such as a "
    "`types.SimpleNamespace(values=x)`."
)


def show(treespec: optree.PyTreeSpec, leaves: Iterator[str]) -> str:
    """Return a structure with these texts as its leaves, without making any of it."""
    kind: Any = treespec.type
    if kind is None:
        return next(leaves)
    children = [_Shown(show(child, leaves)) for child in treespec.children()]
    if kind in _BUILT_IN:
        return repr(one_level(treespec).unflatten(children))
    entries = kind._fields if is_namedtuple(treespec) else treespec.entries()
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
