"""Torch's tensors of dtypes that NumPy lacks, as arrays of dtypes that JAX has."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import optree

from echobuf.dtype_hints import CARRIED
from echobuf.tree import NAMESPACE


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
