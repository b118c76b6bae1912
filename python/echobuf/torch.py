"""`echobuf.torch.EchoLoader`: batches as `torch.Tensor`s."""

from __future__ import annotations

from typing import Any

import optree
import torch
from torch.utils.data import DataLoader

from echobuf.errors import SpecError
from echobuf.field import Field
from echobuf.loader.loader import EchoLoader as _EchoLoader
from echobuf.loader.source import as_data_loader

__all__ = ["EchoLoader"]

# Types that NumPy lacks are carried as integers of their size.
_CARRIERS = {
    dtype: carrier
    for name, carrier in (
        ("bfloat16", torch.int16),
        ("float8_e4m3fn", torch.uint8),
        ("float8_e4m3fnuz", torch.uint8),
        ("float8_e5m2", torch.uint8),
        ("float8_e5m2fnuz", torch.uint8),
    )
    if (dtype := getattr(torch, name, None)) is not None
}


class EchoLoader(_EchoLoader):
    """Echoes what an iterable or a DataLoader yields, in batches of tensors.

    Takes the arguments of `echobuf.EchoLoader`. A `torch.utils.data.DataLoader` that
    makes batches is taken as it is: `batched` is True, and `batch_size` that of the
    DataLoader, unless told.

    The tensors of a batch share the memory that the batch was drawn into; it stays
    valid as long as one of them lives, and is the caller's to change.
    """

    def _default_batched(self) -> bool:
        loader: DataLoader[Any] | None = as_data_loader(self._upstream)
        return loader is not None and (
            loader.batch_size is not None or loader.batch_sampler is not None
        )

    def _read_first(self, item: Any) -> Any:
        leaves, treespec = optree.tree_flatten(item)
        self._dtypes = [_carried(leaf) for leaf in leaves]
        arrays = [_to_array(leaf) for leaf in leaves]
        return treespec.unflatten(arrays)

    def _make_buffer(self, first: Any) -> Any:
        buffer = super()._make_buffer(first)
        for field, path in zip(buffer._spec.fields, buffer._spec.paths, strict=True):
            _check_torch_dtype(field, path)
        self._treespec = buffer._spec.treespec
        return buffer

    @staticmethod
    def _read(item: Any) -> Any:
        return optree.tree_map(_to_array, item)

    def _write(self, batch: Any) -> Any:
        leaves = self._treespec.flatten_up_to(batch)
        return self._treespec.unflatten(
            [
                torch.from_numpy(leaf)
                if dtype is None
                else torch.from_numpy(leaf).view(dtype)
                for leaf, dtype in zip(leaves, self._dtypes, strict=True)
            ]
        )


def _carried(leaf: Any) -> torch.dtype | None:
    if isinstance(leaf, torch.Tensor) and leaf.dtype in _CARRIERS:
        return leaf.dtype
    return None


def _to_array(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    tensor = leaf.detach()
    carrier = _CARRIERS.get(tensor.dtype)
    if carrier is not None:
        tensor = tensor.contiguous().view(carrier)
    try:
        return tensor.numpy()
    except (TypeError, RuntimeError) as error:
        raise SpecError(
            f"a tensor on {tensor.device} with dtype {tensor.dtype} cannot be read: "
            f"{error}. Yield dense tensors on the CPU."
        ) from error


def _check_torch_dtype(field: Field, path: str) -> None:
    import numpy as np

    try:
        torch.from_numpy(np.empty(0, field.dtype))
    except (TypeError, ValueError) as error:
        raise SpecError(
            f"`example{path}` has dtype {field.dtype.str}, which torch does not have: "
            f"{error}"
        ) from None
