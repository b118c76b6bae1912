"""`Field`: the shape and dtype of one array of an example."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from echobuf.errors import SpecError

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, init=False, repr=False)
class Field:
    """One array of an example, without the batch axis.

    Args:
        shape: the shape of one example's array; an int is a shape of one axis, `()` a
            scalar. With `unit="batch"` it includes the batch axis, as axis 0. None as
            axis 0, as in `(None, 3)`, makes the leaf ragged: its length there varies
            from example to example, and may be 0. With `unit="batch"` that is axis 1,
            as in `(32, None, 3)`, behind the batch axis.
        dtype: anything that `numpy.dtype` takes, of a fixed size: no objects, no
            strings.
        max_length: the most rows that a ragged leaf of one example has; None for any
            number.

    Raises:
        SpecError: for a negative extent, None on several axes or on another one than 0
            or 1, a dtype that cannot be stored, or a `max_length` that is no int >= 1
            or is given for a fixed shape.

    Examples:
        >>> Field((224, 224, 3), np.uint8)
        Field(shape=(224, 224, 3), dtype=dtype('uint8'))
        >>> Field((), "int64").dtype
        dtype('int64')
        >>> Field((None,), np.int32, max_length=2048)
        Field(shape=(None,), dtype=dtype('int32'), max_length=2048)
    """

    shape: tuple[Any, ...]
    dtype: np.dtype[Any]
    max_length: int | None

    def __init__(
        self,
        shape: SupportsIndex | Sequence[SupportsIndex | None],
        dtype: npt.DTypeLike,
        max_length: int | None = None,
    ) -> None:
        object.__setattr__(self, "shape", _as_shape(shape))
        object.__setattr__(self, "dtype", _as_dtype(dtype))
        object.__setattr__(self, "max_length", _as_length(max_length, self))

    def __repr__(self) -> str:
        most = "" if self.max_length is None else f", max_length={self.max_length}"
        return f"Field(shape={self.shape}, dtype={self.dtype!r}{most})"


def is_ragged(field: Field) -> bool:
    """Return True if the length on an axis varies from example to example."""
    return None in field.shape


def row_shape(field: Field) -> tuple[int, ...]:
    """Return the shape of one row of a ragged field."""
    return tuple(field.shape[field.shape.index(None) + 1 :])


def row_bytes(field: Field) -> int:
    """Return the bytes of one row of a ragged field, of one record of another."""
    shape = row_shape(field) if is_ragged(field) else field.shape
    return int(math.prod(shape)) * field.dtype.itemsize


def as_example(field: Field) -> Field:
    """Return a ragged field, of an example or a whole batch, as one of an example."""
    return Field((None, *row_shape(field)), field.dtype, field.max_length)


def _as_shape(
    shape: SupportsIndex | Sequence[SupportsIndex | None],
) -> tuple[int | None, ...]:
    try:
        extents = shape if isinstance(shape, Sequence) else tuple(shape)  # type: ignore[arg-type]
    except TypeError:
        extents = (shape,)  # type: ignore[assignment]
    varies = _axis_that_varies(shape)
    try:
        fixed = [
            operator.index(extent)  # type: ignore[arg-type]
            for axis, extent in enumerate(extents)
            if axis != varies
        ]
    except TypeError:
        raise SpecError(_not_a_shape(shape, extents)) from None
    result: tuple[int | None, ...] = tuple(fixed)
    rest = tuple(fixed)
    if varies is not None:
        result = (*fixed[:varies], None, *fixed[varies:])
        rest = tuple(fixed[varies:])
    if any(extent < 0 for extent in fixed):
        raise SpecError(f"`shape` is {result}; no extent may be negative.")
    if varies is not None and 0 in rest:
        raise SpecError(
            f"`shape` is {result}, whose rows have no bytes; leave the leaf out, or "
            "give it a fixed shape."
        )
    try:
        np.empty((0, *(1 if extent is None else min(extent, 1) for extent in result)))
        if 0 in rest:
            np.empty(rest, np.uint8)
    except (ValueError, MemoryError) as error:
        raise SpecError(
            f"`shape` is {result}, which NumPy does not allow: {error}."
        ) from None
    return result


def _axis_that_varies(shape: Any) -> int | None:
    """Return 0 or 1, where that axis is None, and 0 where both are."""
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        return None
    return next((axis for axis, extent in enumerate(shape[:2]) if extent is None), None)


def _not_a_shape(shape: Any, extents: Any) -> str:
    if shape is None:
        return (
            "`shape` is None; it must be an int or a sequence of ints. `(None,)` is "
            "for arrays of one axis whose length varies."
        )
    if None in tuple(extents)[1:]:
        return (
            f"`shape` is {shape!r}; only axis 0 may be None (axis 1 of a whole batch, "
            "with unit='batch'). Move the axis whose length varies to the front, or "
            "pad the others."
        )
    return f"`shape` is {shape!r}; it must be an int or a sequence of ints."


def _as_length(max_length: Any, field: Field) -> int | None:
    if max_length is None:
        return None
    try:
        if isinstance(max_length, bool):
            raise TypeError
        most = operator.index(max_length)
    except TypeError:
        most = 0
    if most < 1:
        raise SpecError(
            f"`max_length` is {max_length!r}; it must be an int >= 1, or None."
        )
    if not is_ragged(field):
        raise SpecError(
            f"`max_length` is {max_length}, but `shape` is {field.shape}, whose length "
            "does not vary; leave `max_length` out, or make axis 0 None."
        )
    return most


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


def check_dtype(array: np.ndarray[Any, Any], field: Field, name: str) -> None:
    """Raise `SpecError` unless the dtype is the field's."""
    if array.dtype != field.dtype:
        raise SpecError(
            f"`{name}` has dtype {_dtype_name(array.dtype)}; the spec says "
            f"{_dtype_name(field.dtype)}. Convert it{_how(array.dtype, field)}: "
            "nothing is converted silently."
        )


def _how(dtype: np.dtype[Any], field: Field) -> str:
    if dtype == field.dtype.newbyteorder():
        return ", `x.astype(x.dtype.newbyteorder())`"
    return " with `.astype`"


def _dtype_name(dtype: np.dtype[Any]) -> str:
    return f"{dtype} ({dtype.str})" if not dtype.isnative else str(dtype)


def core_leaf(field: Field) -> tuple[np.dtype[Any], tuple[Any, ...]]:
    """Return dtype and shape as the core takes them; no batch axis of ragged leaves."""
    shape = (None, *row_shape(field)) if is_ragged(field) else field.shape
    return field.dtype, shape
