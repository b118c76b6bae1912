"""`Field`: the shape and dtype of one array of an example."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from echobuf.errors import SpecError

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, init=False)
class Field:
    """One array of an example, without the batch axis.

    Args:
        shape: the shape of one example's array; an int is a shape of one axis, `()` a
            scalar. With `unit="batch"` it includes the batch axis, as axis 0.
        dtype: anything that `numpy.dtype` takes, of a fixed size: no objects, no
            strings.

    Raises:
        SpecError: for a negative extent, or a dtype that cannot be stored.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __init__(
        self, shape: SupportsIndex | Sequence[SupportsIndex], dtype: npt.DTypeLike
    ) -> None:
        object.__setattr__(self, "shape", _as_shape(shape))
        object.__setattr__(self, "dtype", _as_dtype(dtype))


def _as_shape(shape: SupportsIndex | Sequence[SupportsIndex]) -> tuple[int, ...]:
    try:
        extents = shape if isinstance(shape, Sequence) else tuple(shape)  # type: ignore[arg-type]
    except TypeError:
        extents = (shape,)  # type: ignore[assignment]
    try:
        result = tuple(operator.index(extent) for extent in extents)
    except TypeError:
        raise SpecError(
            f"`shape` is {shape!r}; it must be an int or a sequence of ints."
        ) from None
    if any(extent < 0 for extent in result):
        raise SpecError(f"`shape` is {result}; no extent may be negative.")
    try:
        np.empty((0, *(min(extent, 1) for extent in result)))  # with a batch axis
        if 0 in result:
            np.empty(result, np.uint8)
    except (ValueError, MemoryError) as error:
        raise SpecError(
            f"`shape` is {result}, which NumPy does not allow: {error}."
        ) from None
    return result


def _as_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    try:
        result = np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise SpecError(
            f"`dtype` is {dtype!r}, which NumPy does not know: {error}."
        ) from None
    why = why_not_storable(result)
    if why:
        raise SpecError(f"`dtype` is {result}: {why}")
    return result


def why_not_storable(dtype: np.dtype[Any]) -> str | None:
    """Say why arrays of `dtype` cannot be kept as plain bytes, or None if they can."""
    if dtype.hasobject:
        return (
            "Python objects cannot be stored; convert them to numbers, or keep them "
            "outside and store an index."
        )
    if dtype.names is not None:
        for name in dtype.names:
            inner = dtype[name].base
            why = why_not_storable(inner)
            if why:
                return f"its field {name!r} is {inner}: {why}"
    if dtype.subdtype is not None:
        return "it has a shape of its own; make that part of `shape`."
    if dtype.kind in "SUT":
        return (
            "strings cannot be stored; encode them as numbers (bytes as uint8, labels "
            "as integers)."
        )
    if dtype.itemsize == 0:
        return "it has no bytes."
    return None
