"""Losses in a device's memory, as the core copies them: their addresses and types."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from echobuf.errors import SpecError

_NAMES = ("float16", "bfloat16", "float32", "float64")  # numbered as LossType


Losses: TypeAlias = tuple[int, int, int, int, bool, int, Any]
"""Losses of examples, in a device's memory without gaps, as the core takes them.

The address of the examples' numbers, int64; that of the losses, and the number of their
type; how many examples there are; whether there is one loss for all; the handle of the
stream that they are computed on; the arrays, which live until the copy is enqueued.
"""


def check_losses(
    index_shape: tuple[int, ...],
    index_dtype: Any,
    loss_shape: tuple[int, ...],
    loss_dtype: Any,
    *,
    whole: bool,
) -> tuple[int, bool]:
    """Return the number of the losses' type, and whether there is one for all examples.

    Args:
        index_shape: of `info.index`.
        index_dtype: of `info.index`, NumPy's or torch's.
        loss_shape: of the losses.
        loss_dtype: of the losses, NumPy's or torch's.
        whole: one loss for all is enough.

    Raises:
        SpecError: they are not one number for each example.
    """
    known = _kinds.get(loss_dtype)
    if known is None:
        name = _name_of(loss_dtype)
        if name not in _NAMES:
            raise SpecError(
                f"`loss` is of dtype {loss_dtype} on a device; it must be float16, "
                "bfloat16, float32 or float64."
            )
        known = _kinds[loss_dtype] = _NAMES.index(name)
    if loss_shape != index_shape or len(index_shape) != 1:
        if len(index_shape) != 1:
            raise SpecError(
                f"`info.index` has shape {list(index_shape)}; it must be that of a "
                "batch, with one entry for each example."
            )
        if not (whole and loss_shape == ()):
            raise SpecError(wrong_shape(loss_shape, index_shape[0]))
    if index_dtype != _INT64 and _name_of(index_dtype) != "int64":
        raise SpecError(
            f"`info.index` is of {index_dtype}; it must be that of a batch, int64."
        )
    return known, loss_shape == ()


def wrong_shape(shape: tuple[int, ...], count: int) -> str:
    """Return the text for losses that are not one for each example."""
    return (
        f"`loss` has shape {list(shape)}, and `info` is of {count} examples; give one "
        f"loss for each, of shape [{count}] (in torch: reduction='none')."
    )


_INT64 = np.dtype(np.int64)
_kinds: dict[Any, int] = {}  # by types of NumPy and torch


def _name_of(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def is_on_device(array: Any) -> bool:
    """Return whether an array, not JAX's, lies in a device's memory."""
    is_cuda = getattr(array, "is_cuda", None)
    if is_cuda is not None:  # a tensor
        return bool(is_cuda)
    if callable(getattr(array, "devices", None)):  # JAX's, which knows no streams
        return False
    return hasattr(type(array), "__cuda_array_interface__")


def vector_of(array: Any, name: str, ordinal: int) -> tuple[int, tuple[int, ...], Any]:
    """Return the address, the shape and the dtype of an array without gaps.

    Args:
        array: of CuPy or torch, or with `__cuda_array_interface__`, on a device.
        name: the argument's.
        ordinal: the device that it must be on.

    Raises:
        SpecError: it is on another device, or has gaps.
    """
    pointer = getattr(array, "data_ptr", None)
    if pointer is not None:
        if array.device.index != ordinal:
            raise _elsewhere(name, str(array.device), ordinal)
        return pointer(), tuple(array.shape), array.dtype
    number = getattr(getattr(array, "device", None), "id", ordinal)
    if number != ordinal:
        raise _elsewhere(name, f"cuda:{number}", ordinal)
    pointer = getattr(getattr(array, "data", None), "ptr", None)
    if pointer is not None:  # CuPy's
        return int(pointer), tuple(array.shape), array.dtype
    interface = array.__cuda_array_interface__
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    dtype = np.dtype(interface["typestr"])
    if strides is not None and strides != (dtype.itemsize,) * len(shape):
        raise strided(name)
    return interface["data"][0], shape, dtype


def is_dense(array: Any) -> bool:
    """Return whether an array of CuPy or torch has no gaps."""
    is_contiguous = getattr(array, "is_contiguous", None)
    if is_contiguous is not None:
        return bool(is_contiguous())
    flags = getattr(array, "flags", None)
    return flags is None or bool(flags.c_contiguous)


def strided(name: str) -> SpecError:
    """Return the error for an array with gaps."""
    return SpecError(f"`{name}` is strided; give an array without gaps.")


def _elsewhere(name: str, where: str, ordinal: int) -> SpecError:
    return SpecError(
        f"`{name}` is on {where}; it must be on cuda:{ordinal}, where the buffer is."
    )
