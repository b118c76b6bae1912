"""Torch's part of a loader: items of tensors, and batches of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import optree
import torch

from echobuf import hints, nodes
from echobuf._engine.backends import HostBackend
from echobuf._engine.output import OutputSpec
from echobuf.buffer import EchoBuffer, engine_of
from echobuf.errors import SpecError, message
from echobuf.field import Field
from echobuf.loader.adapter import Adapter
from echobuf.spec import flatten_with_paths

# Types that NumPy lacks are carried as integers of their size.
_CARRIERS = {
    dtype: carrier
    for name, carrier in (
        ("bfloat16", torch.int16),
        ("float8_e4m3fn", torch.uint8),
        ("float8_e4m3fnuz", torch.uint8),
        ("float8_e5m2", torch.uint8),
        ("float8_e5m2fnuz", torch.uint8),
        ("float8_e8m0fnu", torch.uint8),
    )
    if (dtype := getattr(torch, name, None)) is not None
}


def drawn_dtypes(
    output: OutputSpec, carried: list[torch.dtype | None]
) -> list[torch.dtype | None]:
    """Return of each leaf of batches its dtype, if NumPy lacks it, else None."""
    dtypes = []
    for (source, plan), field, path in zip(
        output.plans, output.drawn.fields, output.drawn.paths, strict=True
    ):
        whole = carried[source]
        if plan is not None and whole is not None:
            raise SpecError(
                f"`transform{path}` is for a leaf of {whole}, which NumPy lacks; "
                "yield float32 or uint8, and let ToDtype make it small."
            )
        dtypes.append(_drawn_dtype(field) if plan is not None else whole)
        if dtypes[-1] is None:
            _check_torch_dtype(field, path)
    return dtypes


def to_tensors(
    dtypes: list[torch.dtype | None], leaves: list[Any]
) -> list[torch.Tensor]:
    """Return tensors that share the memory of a batch's leaves."""
    return [
        torch.from_numpy(leaf)
        if dtype is None
        else torch.from_numpy(leaf.view(_carrier_of(dtype))).view(dtype)
        for leaf, dtype in zip(leaves, dtypes, strict=True)
    ]


def _carrier_of(dtype: torch.dtype) -> str:
    return str(_CARRIERS[dtype]).removeprefix("torch.")


def _drawn_dtype(field: Field) -> torch.dtype | None:
    """Return the dtype of what a chain makes, where NumPy lacks it."""
    return torch.bfloat16 if field.dtype.name == "bfloat16" else None


def carried_dtype(leaf: Any) -> torch.dtype | None:
    """Return the dtype of a tensor that NumPy lacks."""
    if isinstance(leaf, torch.Tensor) and leaf.dtype in _CARRIERS:
        return leaf.dtype
    return None


def read_item(
    treespec: optree.PyTreeSpec,
    dtypes: list[torch.dtype | None],
    paths: list[str],
    item: Any,
) -> Any:
    """Return the item with arrays for tensors, if it is like the first one."""
    try:
        leaves = treespec.flatten_up_to(item)
    except (ValueError, TypeError):
        return item  # the buffer says what is wrong
    arrays = []
    for leaf, dtype, path in zip(leaves, dtypes, paths, strict=True):
        if carried_dtype(leaf) is not dtype:
            raise SpecError(
                f"`example{path}` has dtype {getattr(leaf, 'dtype', type(leaf))}; "
                f"the first item's is {dtype or 'one that NumPy has'}. Nothing is "
                "converted silently."
            )
        arrays.append(_to_array(leaf, "example" + path))
    return treespec.unflatten(arrays)


def _to_array(leaf: Any, name: str) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    tensor = leaf.detach()
    try:
        carrier = _CARRIERS.get(tensor.dtype)
        if carrier is not None:
            tensor = tensor.contiguous().view(carrier)
        if tensor.is_conj():
            tensor = tensor.resolve_conj()
        if tensor.is_neg():
            tensor = tensor.resolve_neg()
        return tensor.numpy()
    except (TypeError, RuntimeError) as error:
        raise SpecError(
            f"`{name}` is a tensor with dtype {tensor.dtype} on {tensor.device} that "
            f"cannot be read: {message(error).rstrip('.')}. "
            f"{hints.to_store(leaf, name)}"
        ) from error


def _check_torch_dtype(field: Field, path: str) -> None:
    import numpy as np

    try:
        torch.from_numpy(np.empty(0, field.dtype))
    except (TypeError, ValueError):
        raise SpecError(
            f"`example{path}` has dtype {hints.name_of(field.dtype)}, which "
            f"torch does not have. {hints.to_convert(field.dtype)}"
        ) from None


class TorchAdapter(Adapter):
    """An adapter that reads tensors, and makes batches of them."""

    def read_first(self, item: Any) -> Any:
        """Return the first item as arrays, and keep its structure for the rest."""
        nodes.learn(item)
        self._paths, leaves, self._treespec = flatten_with_paths(item)
        self._dtypes = [carried_dtype(leaf) for leaf in leaves]
        return self.reader()(item)

    def reader(self) -> Callable[[Any], Any]:
        """Return a function that reads an item whose leaves are those of the first."""
        return functools.partial(read_item, self._treespec, self._dtypes, self._paths)

    def carried(self) -> list[str | None]:
        """Return of each leaf of items the name of its dtype, if NumPy lacks it."""
        return [
            None if dtype is None else str(dtype).removeprefix("torch.")
            for dtype in self._dtypes
        ]

    def fit(self, buffer: EchoBuffer) -> None:
        """Make the buffer return tensors."""
        engine = engine_of(buffer)
        dtypes = drawn_dtypes(engine.output, self._dtypes)
        if isinstance(engine.backend, HostBackend):
            engine.backend.use_tensors(functools.partial(to_tensors, dtypes))
        else:
            engine.backend.use_tensors(dtypes)
