"""Attributes of arrays of derived classes, such as units, which batches do not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from echobuf import hints
from echobuf.errors import warn_caller
from echobuf.trees import flatten_with_paths


def warn_of_lost(item: Any, what: str) -> None:
    """Warn of each class of arrays in an item whose attributes are lost.

    Args:
        item: an example or a batch.
        what: its name in the warning.
    """
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
    if type(leaf) is np.ndarray or isinstance(leaf, np.memmap | np.ma.MaskedArray):
        return []
    if not isinstance(leaf, np.ndarray) and not hints.is_of(leaf, "torch", "Tensor"):
        return []
    kind = type(leaf)
    if kind.__module__.partition(".")[0] == "torch":  # `Tensor`, `Parameter`
        return []
    return [
        _show(name.lstrip("_") if hasattr(kind, name.lstrip("_")) else name, value)
        for name, value in getattr(leaf, "__dict__", {}).items()
        if not _is_empty(value)
    ]


def _is_empty(value: Any) -> bool:
    is_container = isinstance(value, Mapping | list | tuple | set)
    return value is None or value is False or (is_container and not value)


def _show(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return f"`{name}` ({', '.join(map(str, value))})"
    return f"`{name}`"
