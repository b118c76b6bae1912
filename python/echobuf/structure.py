"""Structures of trees in the form that the core takes apart natively."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from echobuf import _core

if TYPE_CHECKING:
    import optree


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
        placed = treespec.unflatten(range(treespec.num_leaves))
        order = [keys.index(key) for key in placed]
        return ("dict", children, keys, order)
    if treespec.type in (tuple, list):
        return (treespec.type.__name__, children)
    if _is_namedtuple(treespec):
        return ("namedtuple", children, treespec.type)
    return None


def _is_namedtuple(treespec: optree.PyTreeSpec) -> bool:
    """Return whether the node is a named tuple that nobody has registered as a node."""
    import optree

    return getattr(treespec, "kind", None) == optree.PyTreeKind.NAMEDTUPLE
