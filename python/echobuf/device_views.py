"""Copies, parts and stacks of arrays on a device, which the host does not read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from echobuf.device_arrays import LEGACY, is_cupys, is_jaxs, place, read
from echobuf.errors import SpecError


def shape_of(leaf: Any) -> tuple[int, ...]:
    """Return the shape of an array on a device."""
    try:
        return tuple(leaf.shape)
    except AttributeError:
        return read(leaf, "x", LEGACY).shape


def like(leaf: Any, name: str) -> np.ndarray[Any, Any]:
    """Return an array of NumPy with shape and dtype of one on a device, and no values.

    Raises:
        SpecError: as `read`.
    """
    found = read(leaf, name, LEGACY)
    return np.broadcast_to(np.empty((), found.dtype), found.shape)


def copy_of(leaf: Any) -> Any:
    """Return a copy on the device, in the order of the current stream.

    Raises:
        SpecError: the array has no `copy`.
    """
    if is_jaxs(leaf):  # which never changes
        return leaf
    if callable(getattr(leaf, "copy", None)):
        return leaf.copy()
    raise SpecError(
        f"upstream yields a {type(leaf).__name__} on {place(leaf)}, which must be "
        "copied to be kept while later items are looked at, and has no `copy()`; yield "
        "arrays of CuPy, torch or JAX."
    )


def stack(arrays: list[Any]) -> Any:
    """Return arrays on a device stacked on axis 0, by CuPy or JAX.

    Raises:
        SpecError: they are of another library.
    """
    jax = sys.modules.get("jax")
    numpy = jax.numpy if jax is not None and is_jaxs(arrays[0]) else None
    if is_cupys(arrays[0]):
        numpy = sys.modules["cupy"]
    if numpy is None:
        raise SpecError(
            f"an array of a {type(arrays[0]).__name__} on {place(arrays[0])} for each "
            "example cannot be stacked; yield arrays of CuPy, torch or JAX, or batches."
        )
    return numpy.stack(arrays)


def rows_from(leaf: Any, first: int) -> Any:
    """Return an array on a device without its first rows, over the same memory."""
    if hasattr(type(leaf), "__getitem__"):
        return leaf[first:]
    return _View(leaf, lambda whole: whole[first:])


def join_rows(leaf: Any, name: str) -> Any:
    """Return an array `[n, length, ...]` on a device as `[n * length, ...]`.

    Raises:
        SpecError: it is not dense, and of a library without `reshape`.
    """
    count, length, *rest = shape_of(leaf)
    shape = (count * length, *rest)
    if hasattr(type(leaf), "reshape"):
        return leaf.reshape(*shape)

    def join(whole: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if not whole.flags.c_contiguous:
            raise SpecError(f"`{name}` is not dense; give values and offsets.")
        return whole.reshape(shape)

    return _View(leaf, join)


class _View:
    """A view of an array on a device, as a `__cuda_array_interface__`."""

    def __init__(
        self,
        leaf: Any,
        change: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]],
    ) -> None:
        whole = read(leaf, "batch", LEGACY)
        place = (whole.address, True)
        view = change(ghost(place, whole.shape, whole.strides, whole.dtype))
        self._owner = whole.owner
        self.shape, self.dtype = view.shape, view.dtype
        self.__cuda_array_interface__ = {
            "version": 3,
            "data": (view.ctypes.data, True),
            "shape": view.shape,
            "strides": view.strides,
            "typestr": f"|V{view.itemsize}",
            "stream": LEGACY if whole.stream is None else whole.stream,
        }


class _Ghost:
    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


def ghost(
    place: tuple[int, bool],
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    dtype: np.dtype[Any],
) -> np.ndarray[Any, Any]:
    """Return a NumPy array with an address on the device, which must never be read.

    Args:
        place: the address, and True where nothing may be written.
        shape: the extents.
        strides: in bytes; None for a dense array.
        dtype: of the elements.
    """
    address, read_only = place
    interface = {
        "version": 3,
        "data": (address or 1, read_only),  # empty arrays may have no address
        "shape": tuple(shape),
        "strides": strides,
        "typestr": f"|V{dtype.itemsize}",
    }
    return np.asarray(_Ghost(interface)).view(dtype)
