"""Nodes in the structure of items: dataclasses, `UserDict`s, and what JAX knows."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections import UserDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from echobuf.spec import NAMESPACE

if TYPE_CHECKING:
    import optree

_registering = threading.Lock()
_known_of_jax: set[type] = set()


def learn(item: Any) -> None:
    """Make nodes of all dataclasses and `UserDict`s in an item.

    Batches come back in the same structure. A dataclass is put together without its
    `__init__` and `__post_init__`, as by `copy.copy`; a `UserDict` from a dict. What
    JAX has registered is taken as JAX sees it: fields of it may be no data.
    """
    if "jax" in sys.modules:
        learn_of_jax(item)
    with _registering:
        while new := {type(leaf) for leaf in _leaves(item) if _is_node(leaf)}:
            for kind in new:
                _register(kind)


def _leaves(item: Any) -> list[Any]:
    import optree

    return optree.tree_leaves(item, namespace=NAMESPACE)


def _is_node(leaf: Any) -> bool:
    if isinstance(leaf, type) or hasattr(leaf, "__array__"):
        return False
    return dataclasses.is_dataclass(leaf) or isinstance(leaf, UserDict)


def _register(kind: type) -> None:
    import optree

    if issubclass(kind, UserDict):
        _register_as(kind, _entries_of_dict, _make_dict(kind), optree.MappingEntry)
    else:
        _register_as(kind, _fields_of, _make_of_fields(kind), optree.GetAttrEntry)


def _register_as(
    kind: type,
    flatten: Callable[[Any], tuple[Iterable[Any], Any, Iterable[Any]]],
    unflatten: Callable[[Any, Iterable[Any]], Any],
    entry: type[optree.PyTreeEntry],
) -> None:
    import optree

    optree.register_pytree_node(
        kind, flatten, unflatten, path_entry_type=entry, namespace=NAMESPACE
    )


def _fields_of(node: Any) -> tuple[list[Any], None, list[str]]:
    names = [field.name for field in dataclasses.fields(node)]
    return [getattr(node, name) for name in names], None, names


def _make_of_fields(kind: Any) -> Callable[[Any, Iterable[Any]], Any]:
    names = [field.name for field in dataclasses.fields(kind)]

    def make(_: None, children: Iterable[Any]) -> Any:
        node = object.__new__(kind)
        for name, child in zip(names, children, strict=True):
            object.__setattr__(node, name, child)  # though it be frozen
        return node

    return make


def _entries_of_dict(node: Any) -> tuple[list[Any], tuple[Any, ...], list[Any]]:
    return list(node.data.values()), tuple(node.data), list(node.data)


def _make_dict(kind: Any) -> Callable[[tuple[Any, ...], Iterable[Any]], Any]:
    return lambda keys, children: kind(dict(zip(keys, children, strict=True)))


# ---- nodes of JAX, which is imported where it is used


def learn_of_jax(item: Any) -> None:
    """Make nodes of the containers that JAX knows: dataclasses, modules, and others."""
    with _registering:
        _learn_of_jax(item)


def _learn_of_jax(tree: Any) -> None:
    import jax

    for leaf in _leaves(tree):
        if jax.tree_util.all_leaves([leaf]):
            continue
        if type(leaf) not in _known_of_jax:  # another of its kind may stand before it
            _register_of_jax(leaf)
        for child in _children(leaf)[0]:
            _learn_of_jax(child)


def _register_of_jax(node: Any) -> None:
    import jax
    import optree

    keys = [path[0] for path, _ in _flatten(node)[0]]
    by_name = all(isinstance(key, jax.tree_util.GetAttrKey) for key in keys)
    entry = optree.GetAttrEntry if by_name else optree.GetItemEntry
    _register_as(type(node), _children, jax.tree_util.tree_unflatten, entry)
    _known_of_jax.add(type(node))


def _flatten(node: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """Flatten one level of a node."""
    import jax

    return jax.tree_util.tree_flatten_with_path(
        node, is_leaf=lambda other: other is not node
    )


def _children(node: Any) -> tuple[list[Any], Any, Iterable[Any]]:
    pairs, treedef = _flatten(node)
    entries = tuple(_entry(path[0]) for path, _ in pairs)
    return [child for _, child in pairs], treedef, entries


def _entry(key: Any) -> Any:
    for name in ("name", "key", "idx"):
        if hasattr(key, name):
            return getattr(key, name)
    return key
