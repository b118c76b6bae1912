"""The caller's classes in items: containers, which become nodes, and arrays.

A container is only ever made of arrays, since its class may look at what it is given;
what stands for arrays is in an `echobuf.spec.StandIns`.
"""

from __future__ import annotations

import dataclasses
import operator
import pickle
import sys
import threading
import warnings
from collections import UserDict, UserList
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from echobuf import hints
from echobuf.errors import warn_caller
from echobuf.field import Field
from echobuf.trees import NAMESPACE, OF_JAX, StandIns, flatten, flatten_with_paths

if TYPE_CHECKING:
    import optree


_registering = threading.Lock()
_registered: set[type] = set()  # by their own class, not by JAX
_ARRAYS = ("__array__", "__cuda_array_interface__", "__dlpack__")
_plain: set[type] = set()  # those that cannot be made of a dict or a list


def learn(item: Any) -> None:
    """Make nodes of the caller's containers in an item.

    These are dataclasses, mappings, lists of derived types, and named tuples whose
    class has a `__new__` or an `__init__`. Batches come back in the same structure: a
    dataclass put together of its fields without its `__init__` and `__post_init__`, as
    by `copy.copy`, so that it has no other attributes; a mapping or a list made by its
    class of a dict or a list, or as a dict or a list where the class refuses that. What
    JAX has registered is taken as JAX sees it: fields of it may be no data.
    """
    if "jax" in sys.modules:
        learn_of_jax(item)
    with _registering:
        while new := {type(leaf) for leaf in _leaves(item) if _is_node(type(leaf))}:
            for kind in new:
                _register(kind)


def _leaves(item: Any) -> list[Any]:
    # Named tuples are nodes of optree's, whatever their class does.
    if isinstance(item, StandIns):
        return []
    leaves, _ = flatten(item, is_leaf=lambda node: _is_checked_tuple(type(node)))
    return leaves


def _is_node(kind: type) -> bool:
    # The class is asked: where `__getattr__` is `__getitem__` an instance may raise.
    try:
        is_array = any(hasattr(kind, name) for name in _ARRAYS)
        if kind is Field or is_array or hints.is_tensorclass(kind):
            return False
        is_container = _is_mapping(kind) or issubclass(kind, list | UserList)
        return is_container or dataclasses.is_dataclass(kind) or _is_checked_tuple(kind)
    except Exception:  # of the code of a metaclass
        return False


def _is_mapping(kind: type) -> bool:
    if issubclass(kind, dict | UserDict):
        return True
    names = ("keys", "values", "items", "__getitem__", "__iter__")
    is_one = issubclass(kind, Mapping) or all(hasattr(kind, name) for name in names)
    return is_one and not hasattr(kind, "shape")  # as a batch of its own library's has


def _is_checked_tuple(kind: Any) -> bool:
    """Return True for a class of named tuples, no node yet, that checks its fields."""
    if not issubclass(kind, tuple) or kind in _registered or kind in OF_JAX:
        return False
    bases = [base for base in kind.__mro__ if "_fields" in base.__dict__]
    return bool(bases) and (
        kind.__new__ is not bases[-1].__new__ or kind.__init__ is not object.__init__
    )


def _register(kind: type) -> None:
    import optree

    if _is_mapping(kind):
        values = _values_of_user_dict if issubclass(kind, UserDict) else _values_of
        _register_as(kind, values, _make_mapping(kind), optree.MappingEntry)
    elif issubclass(kind, list | UserList):
        _register_as(kind, _elements_of, _make_list(kind), optree.SequenceEntry)
    elif issubclass(kind, tuple):
        with warnings.catch_warnings():  # of optree's, that it knows named tuples
            warnings.simplefilter("ignore", UserWarning)
            make = _make_tuple(kind)
            _register_as(kind, _tuple_fields_of, make, optree.GetAttrEntry)
    else:
        _register_as(kind, _fields_of, _make_of_fields(kind), optree.GetAttrEntry)
    _registered.add(kind)


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


# ---- dataclasses and named tuples: made without any code of the class


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


def _tuple_fields_of(node: Any) -> tuple[tuple[Any, ...], None, tuple[str, ...]]:
    return tuple(node), None, node._fields


def _make_tuple(kind: Any) -> Callable[[Any, Iterable[Any]], Any]:
    return lambda _, children: tuple.__new__(kind, children)


# ---- mappings and lists: made of a dict or a list, where the class takes that


class _Keys(tuple[Any, ...]):
    """The keys of a mapping, in its order; equal to the same keys in another one."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keys) and set(self) == set(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(frozenset(self))

    def sorted(self) -> list[Any]:
        try:
            return sorted(self)
        except TypeError:  # keys of several types
            return sorted(self, key=lambda key: (type(key).__name__, str(key)))


def _values_of(node: Any) -> tuple[list[Any], _Keys, list[Any]]:
    keys = _Keys(node)
    ordered = keys.sorted()
    return [node[key] for key in ordered], keys, ordered


def _values_of_user_dict(node: Any) -> tuple[list[Any], _Keys, list[Any]]:
    return _values_of(node.data)


def _make_mapping(kind: Any) -> Callable[[_Keys, Iterable[Any]], Any]:
    def make(keys: _Keys, children: Iterable[Any]) -> Any:
        entries = dict.fromkeys(keys)
        entries.update(zip(keys.sorted(), children, strict=True))
        return _of_class(kind, entries, lambda made: {*made} == {*entries})

    return make


def _elements_of(node: Any) -> tuple[list[Any], None, range]:
    elements = list(node)
    return elements, None, range(len(elements))


def _make_list(kind: Any) -> Callable[[Any, Iterable[Any]], Any]:
    def make(_: None, children: Iterable[Any]) -> Any:
        elements = list(children)
        return _of_class(kind, elements, lambda made: _are_same(made, elements))

    return make


def _are_same(some: Any, others: list[Any]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


def _of_class(kind: Any, plain: Any, holds_all: Callable[[Any], bool]) -> Any:
    """Return what a class makes of a dict or a list; that itself if it refuses."""
    if kind not in _plain:
        try:
            made = kind(plain)
            if type(made) is kind and holds_all(made):
                return made
        except Exception:  # of the caller's code
            pass
        _plain.add(kind)
    return plain


# ---- structures in other processes


def kinds_in(treespec: optree.PyTreeSpec) -> set[type]:
    """Return the classes in a structure that `learn` has made nodes."""
    kinds = {kind for kind in [treespec.type] if kind in _registered}
    return kinds.union(*map(kinds_in, treespec.children()))


def restore(kinds: set[type], treespec: bytes, leaves: list[Any]) -> StandIns:
    """Return a pickled `StandIns`, once the classes in it are nodes here, too."""
    with _registering:
        for kind in kinds - _registered:
            _register(kind)
    return StandIns(pickle.loads(treespec), leaves)


# ---- nodes of JAX, which is imported where it is used


def learn_of_jax(item: Any) -> None:
    """Make nodes of the containers that JAX knows: dataclasses, modules, and others."""
    with _registering:
        _learn_of_jax(item)


def _learn_of_jax(tree: Any) -> None:
    import jax

    for leaf in _leaves(tree):
        if _is_checked_tuple(type(leaf)):  # which JAX would make by its class
            _register(type(leaf))
            for child in leaf:
                _learn_of_jax(child)
            continue
        if jax.tree_util.all_leaves([leaf]):
            continue
        if type(leaf) not in OF_JAX:  # another of its kind may stand before it
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
    OF_JAX.add(type(node))


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


# ---- arrays of derived classes, whose attributes (units, say) batches do not have


def warn_of_lost(item: Any, what: str) -> None:
    """Warn of each class of arrays in an item whose attributes are lost."""
    known: set[type] = set()
    paths, leaves, _ = flatten_with_paths(item)
    for leaf, path in zip(leaves, paths, strict=True):
        if type(leaf) not in known and (names := _lost(leaf)):
            known.add(type(leaf))
            plain = "np.asarray(x)"
            if not isinstance(leaf, np.ndarray):
                plain = "x.as_subclass(torch.Tensor)"
            warn_caller(
                f"`{what}{path}` is of type {type(leaf).__name__}, with "
                f"{', '.join(names)}, which batches do not have: their arrays are "
                "plain. Yield what is needed of that as a leaf of its own; and a plain "
                f"array, `{plain}`, to be without this warning."
            )


def _lost(leaf: Any) -> list[str]:
    """Return the attributes that a subclass of arrays or tensors adds, in words."""
    kind = type(leaf)  # an instance may say that it is of another
    if kind is np.ndarray or issubclass(kind, np.memmap | np.ma.MaskedArray):
        return []
    if not issubclass(kind, np.ndarray) and not hints.is_of(leaf, "torch", "Tensor"):
        return []
    if kind.__module__.partition(".")[0] == "torch":  # `Tensor`, `Parameter`
        return []
    slots = [
        name for base in kind.__mro__ for name in base.__dict__.get("__slots__", ())
    ]
    values = {name: getattr(leaf, name, None) for name in slots}
    values |= getattr(leaf, "__dict__", {})
    return [
        _show(name.lstrip("_") if hasattr(kind, name.lstrip("_")) else name, value)
        for name, value in values.items()
        if not _is_empty(value)
    ]


def _is_empty(value: Any) -> bool:
    is_container = isinstance(value, Mapping | list | tuple | set)
    return value is None or value is False or (is_container and not value)


def _show(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return f"`{name}` ({', '.join(map(str, value))})"
    return f"`{name}`"
