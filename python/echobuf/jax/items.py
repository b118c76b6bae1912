"""Items of upstream as JAX sees them: pytrees, and tensors that NumPy cannot read."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from typing import Any

import jax
import ml_dtypes
import numpy as np
import optree

from echobuf.dtype_hints import CARRIED
from echobuf.tree import NAMESPACE

_known: set[type] = set()
_registering = threading.Lock()


def learn(tree: Any) -> None:
    """Register all containers in `tree` that JAX knows: dataclasses, modules, ...

    Args:
        tree: an item of upstream.
    """
    with _registering:
        _learn(tree)


def _learn(tree: Any) -> None:
    for leaf in optree.tree_leaves(tree, namespace=NAMESPACE):
        if jax.tree_util.all_leaves([leaf]):
            continue
        if type(leaf) not in _known:  # another of its kind may stand before it
            _register(leaf)
        for child in _children(leaf)[0]:
            _learn(child)


def _register(node: Any) -> None:
    keys = [path[0] for path, _ in _flatten(node)[0]]
    by_name = all(isinstance(key, jax.tree_util.GetAttrKey) for key in keys)
    optree.register_pytree_node(
        type(node),
        _children,
        jax.tree_util.tree_unflatten,
        path_entry_type=optree.GetAttrEntry if by_name else optree.GetItemEntry,
        namespace=NAMESPACE,
    )
    _known.add(type(node))


def _flatten(node: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """Flatten one level of a node."""
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


def has_tensors(item: Any) -> bool:
    """Return whether a leaf of `item` is a tensor of torch's."""
    if "torch" not in sys.modules:
        return False
    kind = sys.modules["torch"].Tensor
    leaves = optree.tree_leaves(item, namespace=NAMESPACE)
    return any(isinstance(leaf, kind) for leaf in leaves)


def read(item: Any) -> Any:
    """Return `item` with arrays, bit for bit, for tensors that NumPy cannot read."""
    return optree.tree_map(_read, item, namespace=NAMESPACE)


def _read(leaf: Any) -> Any:
    torch = sys.modules["torch"]
    if not isinstance(leaf, torch.Tensor):
        return leaf
    name = str(leaf.dtype).removeprefix("torch.")
    is_plain = leaf.device.type == "cpu" and leaf.layout == torch.strided
    if name not in CARRIED or not is_plain:
        return leaf
    carrier = torch.int16 if leaf.dtype.itemsize == 2 else torch.uint8
    bits = leaf.detach().contiguous().view(carrier).numpy()
    return bits.view(np.dtype(getattr(ml_dtypes, name)))
