"""Torch's part of a loader: items of tensors, and batches of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import optree
import torch

from echobuf import _core, hints
from echobuf._engine.backends import HostBackend
from echobuf._engine.ragged_forms import RaggedLeaf
from echobuf.errors import OptionError, SpecError, message
from echobuf.field import Field, is_ragged
from echobuf.loader.items import Adapter, arrays_of_first
from echobuf.loader.ragged import RaggedRequest
from echobuf.loader_buffer import LoaderBuffer
from echobuf.output_spec import OutputSpec
from echobuf.ragged import Packed, Padded, Ragged
from echobuf.spec import as_first_array, of_all_leaves, refuse_dtypes
from echobuf.trees import NAMESPACE, flatten_with_paths, leaves_of, stand_for

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
    output: OutputSpec, foreign: list[torch.dtype | None]
) -> list[torch.dtype | None]:
    """Return of each leaf of batches its dtype, if NumPy lacks it, else None."""
    dtypes = []
    lacking: dict[str, np.dtype[Any]] = {}
    for (source, plan), rows, field, path in zip(
        output.plans,
        output.rows,
        output.drawn.fields,
        output.drawn.paths,
        strict=True,
    ):
        mask = rows is not None and rows.mask
        is_info = source == _core.NO_FIELD
        whole = None if mask or is_info else foreign[source]
        computed = plan is not None or (rows is not None and rows.computes)
        if computed and whole is not None:
            raise SpecError(
                f"`transform{path}` is for a leaf of {whole}, which NumPy lacks; "
                "yield float32 or uint8, and let ToDtype make it small."
            )
        dtypes.append(_drawn_dtype(field) if computed else whole)
        if dtypes[-1] is None and not _has_dtype(field):
            lacking[path] = field.dtype
    refuse_dtypes("torch", lacking)
    return dtypes


def to_tensors(dtypes: list[torch.dtype | None], leaves: list[Any]) -> list[Any]:
    """Return tensors that share the memory of a batch's leaves.

    A ragged leaf is a `Ragged`, a `Padded` or a `Packed` of tensors.
    """
    return [_to_tensor(leaf, dtype) for leaf, dtype in zip(leaves, dtypes, strict=True)]


def _to_tensor(leaf: Any, dtype: torch.dtype | None) -> Any:
    if isinstance(leaf, Ragged | Padded | Packed):
        return type(leaf)(_to_tensor(leaf[0], dtype), *map(torch.from_numpy, leaf[1:]))
    if dtype is None:
        return torch.from_numpy(leaf)
    return torch.from_numpy(leaf.view(_carrier_of(dtype))).view(dtype)


def as_packed(request: RaggedRequest) -> Any:
    """Return the argument `ragged` of the base for nested tensors, which are packed."""
    if request.flags is None:
        return "packed"
    return optree.tree_map(
        lambda is_ragged: "packed" if is_ragged else None,
        request.flags,
        namespace=NAMESPACE,
    )


def to_nested(dtypes: list[torch.dtype | None], leaves: list[Any]) -> list[Any]:
    """Return the same, with jagged nested tensors for ragged leaves.

    Those of equal lengths have one tensor of offsets: by that torch knows that they
    have one shape.
    """
    tensors = to_tensors(dtypes, leaves)
    known: list[torch.Tensor] = []
    for i, leaf in enumerate(tensors):
        if isinstance(leaf, Ragged):
            equal = (each for each in known if torch.equal(each, leaf.offsets))
            offsets = next(equal, leaf.offsets)
            known.append(offsets)
            tensors[i] = torch.nested.nested_tensor_from_jagged(leaf.values, offsets)
    return tensors


def _carrier_of(dtype: torch.dtype) -> str:
    return str(_CARRIERS[dtype]).removeprefix("torch.")


def _drawn_dtype(field: Field) -> torch.dtype | None:
    """Return the dtype of what a chain makes, where NumPy lacks it."""
    return torch.bfloat16 if field.dtype.name == "bfloat16" else None


def foreign_dtype(leaf: Any) -> torch.dtype | None:
    """Return the dtype of a tensor that NumPy lacks."""
    if isinstance(leaf, RaggedLeaf):
        leaf = leaf.sample()
    if isinstance(leaf, torch.Tensor) and leaf.dtype in _CARRIERS:
        return leaf.dtype
    return None


def read_item(
    treespec: optree.PyTreeSpec,
    dtypes: list[torch.dtype | None],
    paths: list[str],
    item: Any,
) -> Any:
    """Return the item with arrays for tensors, if it is like the first one.

    Args:
        treespec: of the first item, like the others.
        dtypes: of the leaves that are tensors.
        paths: of the leaves.
        item: any.

    Raises:
        SpecError: it names all leaves of another dtype, or that cannot be read.
    """
    try:
        leaves = leaves_of(item, treespec)
    except (ValueError, TypeError):
        return item  # the buffer says what is wrong
    arrays = []
    errors: list[tuple[str, object, SpecError]] = []
    for leaf, dtype, path in zip(leaves, dtypes, paths, strict=True):
        name = "example" + path
        try:
            if _is_other(leaf, dtype):
                raise SpecError(
                    f"`{name}` has dtype {getattr(leaf, 'dtype', type(leaf))}; in the "
                    f"first item it is {dtype or 'no tensor'}. Nothing is converted "
                    "silently."
                )
            arrays.append(_to_array(leaf, name))
        except SpecError as error:
            errors.append((name, type(leaf), error))
    if errors:
        raise of_all_leaves(errors) from errors[0][2].__cause__
    return stand_for(treespec, arrays)


def _is_other(leaf: Any, dtype: torch.dtype | None) -> bool:
    """Return True for a leaf with another dtype than in the first item.

    Of an array and a tensor that NumPy can read, the buffer compares the dtypes.
    """
    if isinstance(leaf, torch.Tensor) and dtype is not None:
        return leaf.dtype is not dtype
    return foreign_dtype(leaf) is not (dtype if dtype in _CARRIERS else None)


def _to_array(leaf: Any, name: str) -> Any:
    if isinstance(leaf, RaggedLeaf):
        return leaf.map(lambda each: _to_array(each, name))
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
        return tensor if tensor.is_cuda else tensor.numpy()
    except (TypeError, RuntimeError) as error:
        raise SpecError(
            f"`{name}` is a tensor with dtype {tensor.dtype} on {tensor.device} that "
            f"cannot be read: {message(error).rstrip('.')}. "
            f"{hints.to_store(leaf)}"
        ) from error


def _to_first_array(leaf: Any, name: str) -> Any:
    return as_first_array(_to_array(leaf, name), name)


def _has_dtype(field: Field) -> bool:
    try:
        torch.from_numpy(np.empty(0, field.dtype))
    except (TypeError, ValueError):
        return False
    return True


def _check_padding(buffer: LoaderBuffer, dtypes: list[torch.dtype | None]) -> None:
    """Refuse padding whose bits, in an integer that stands for a dtype, are others."""
    given = buffer.options.pad_value
    for dtype, field, path in zip(
        dtypes, buffer.spec.fields, buffer.spec.paths, strict=True
    ):
        if dtype is not None and is_ragged(field) and given != 0:
            raise OptionError(
                f"`pad_value` is {given!r}, and `example{path}` has dtype {dtype}, "
                "which NumPy lacks, and is padded with 0 alone; leave `pad_value` out, "
                "or yield float32."
            )


class TorchAdapter(Adapter):
    """An adapter that reads tensors, and makes batches of them.

    Args:
        nested: ragged leaves of batches are nested tensors.
    """

    def __init__(self, *, nested: bool = False) -> None:
        self.nested = nested

    def read_first(self, item: Any) -> Any:
        """Return the first item as arrays, and keep its structure for the rest."""
        self.learn(item)
        self._paths, leaves, self._treespec = flatten_with_paths(item)
        self._dtypes = [foreign_dtype(leaf) for leaf in leaves]
        self._first_dtypes = [
            leaf.dtype if isinstance(leaf, torch.Tensor) else foreign
            for leaf, foreign in zip(leaves, self._dtypes, strict=True)
        ]
        try:
            return self.decoder()(item)
        except SpecError:  # of a tensor; other leaves may be at fault, too
            arrays_of_first(item, leaves, self._paths, "example", _to_first_array)
            raise

    def decoder(self) -> Callable[[Any], Any]:
        """Return a function that reads an item whose leaves are those of the first."""
        return functools.partial(
            read_item, self._treespec, self._first_dtypes, self._paths
        )

    def foreign(self) -> list[str | None]:
        """Return of each leaf of items the name of its dtype, if NumPy lacks it."""
        return [
            None if dtype is None else str(dtype).removeprefix("torch.")
            for dtype in self._dtypes
        ]

    def fit(self, buffer: LoaderBuffer) -> None:
        """Make the buffer return tensors."""
        dtypes = drawn_dtypes(buffer.output, self._dtypes)
        _check_padding(buffer, self._dtypes)
        if isinstance(buffer.backend, HostBackend):
            convert = to_nested if self.nested else to_tensors
            buffer.backend.use_tensors(functools.partial(convert, dtypes))
        else:
            buffer.backend.use_tensors(dtypes)
            if self.nested:
                # Equal lengths are not looked for: that would wait for the device.
                sources = [source for source, _ in buffer.output.plans]
                make = torch.nested.nested_tensor_from_jagged
                buffer.backend.use_maker(make, sources)
