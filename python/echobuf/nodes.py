"""Dataclasses and `UserDict`s in items of upstream, as nodes of their structure."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections import UserDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from echobuf.tree import NAMESPACE

if TYPE_CHECKING:
    import optree

_registering = threading.Lock()


def learn(item: Any) -> None:
    """Make nodes of all dataclasses and `UserDict`s in an item.

    Batches come back in the same structure. A dataclass is put together without its
    `__init__` and `__post_init__`, as by `copy.copy`; a `UserDict` from a dict. What
    JAX has registered is taken as JAX sees it: fields of it may be no data.
    """
    if "jax" in sys.modules:
        from echobuf.jax import items

        items.learn(item)
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
