"""What examples look like, as a server tells its jobs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

from echobuf import nodes
from echobuf.field import Field
from echobuf.loader import source
from echobuf.loader.adapter import Adapter
from echobuf.tree import NAMESPACE, Spec, describe, flatten_with_paths, make_spec


@dataclass(frozen=True)
class Sample:
    """Can be pickled, without any data.

    Attributes:
        tree: the structure, with a `Field` for each leaf.
        carried: of each leaf the name of its torch dtype, where NumPy lacks it.
    """

    tree: Any
    carried: tuple[str | None, ...]

    @property
    def spec(self) -> Spec:
        """Of one example."""
        nodes.learn(self.tree)
        return make_spec(self.tree)

    def describe(self) -> str:
        """In one line."""
        return describe(self.spec)

    def example(self) -> Any:
        """One of zeros, with leaves as upstream has them."""
        nodes.learn(self.tree)
        _, fields, treespec = flatten_with_paths(self.tree, is_leaf=_is_field)
        return treespec.unflatten(
            _zeros(field, name)
            for field, name in zip(fields, self.carried, strict=True)
        )


def read_sample(item: Any, *, batched: bool) -> tuple[Sample, Adapter]:
    """What examples look like, from the first item of upstream.

    Returns:
        The sample, and an adapter that reads items like the first one.

    Raises:
        SpecError: it has no leaves, or some that cannot be stored.
    """
    adapter = _adapter(item)
    first = adapter.read_first(item)
    if batched:
        tree, _ = source.infer_example(first)
    else:
        source.check_example(first)
        tree = optree.tree_map(
            lambda leaf: Field(np.shape(leaf), np.asarray(leaf).dtype),
            first,
            namespace=NAMESPACE,
        )
    carried = adapter.carried() or [None] * len(make_spec(tree).fields)
    return Sample(tree, tuple(carried)), adapter


def _adapter(item: Any) -> Adapter:
    torch = sys.modules.get("torch")
    leaves = optree.tree_leaves(item, namespace=NAMESPACE)
    if torch is None or not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return Adapter()
    from echobuf.torch.adapter import TorchAdapter

    return TorchAdapter()


def _zeros(field: Field, carried: str | None) -> Any:
    if carried is None:
        return np.zeros(field.shape, field.dtype)
    import torch

    return torch.zeros(
        field.shape, dtype=getattr(torch, carried.removeprefix("torch."))
    )


def _is_field(node: Any) -> bool:
    return isinstance(node, Field)
