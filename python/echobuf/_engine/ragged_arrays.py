"""Ragged leaves that are put: one array an example, or those of many together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from echobuf._engine.ragged_forms import (
    Array,
    bytes_as_array,
    check_offsets_place,
    is_nested,
    split,
)
from echobuf.errors import SpecError
from echobuf.field import Field, check_dtype
from echobuf.ragged import Packed, Padded, Ragged
from echobuf.spec import as_array

Rows = tuple[Array, Array]
"""The rows of many arrays, and int64 offsets of where each begins and the last ends."""

_FORMS = (
    "a list of arrays, `echobuf.Ragged(values, offsets)`, a jagged nested tensor, or "
    "an Arrow array of lists"
)


_TUPLE = (
    " (A tuple of two is `(values, offsets)`; give two examples as a list: `list(x)`.)"
)


def read_one(leaf: Any, field: Field, name: str) -> Array:
    """Return a ragged leaf of one example as an array `[length, *shape]`.

    Args:
        leaf: an array, a tensor, or bytes for uint8.
        field: of the spec.
        name: of the leaf.

    Raises:
        SpecError: it does not fit the field.
    """
    array = _as_rows(leaf, field, name)
    if field.max_length is not None and len(array) > field.max_length:
        raise SpecError(
            f"`{name}` has {len(array)} rows on axis 0; `max_length` of its Field is "
            f"{field.max_length}. Cut it, `x[:{field.max_length}]`, or make "
            "`max_length` larger."
        )
    return np.ascontiguousarray(array)


def read_stacked(leaf: Any, field: Field, name: str) -> Rows:
    """Return a ragged leaf of many examples as values and offsets.

    Args:
        leaf: `Ragged` or another tuple of values and offsets; a list of arrays; a
            jagged nested tensor; an Arrow array of lists or of binary strings; or one
            array `[n, length, *shape]` of examples that happen to be of one length.
        field: of the spec.
        name: of the leaf.

    Raises:
        SpecError: it does not fit the field.
    """
    parts = split(leaf, name)
    if parts is None:
        values, offsets = _read_dense(leaf, field, name)
    elif isinstance(parts, list):
        values, offsets = _join(parts, field, name)
    else:
        values, offsets = _read_pair(parts, field, name)
    _check_lengths(np.diff(offsets), field, name)
    return values, offsets


def _check_lengths(lengths: Array, field: Field, name: str) -> None:
    if field.max_length is None or not len(lengths):
        return
    worst = int(lengths.argmax())
    if lengths[worst] > field.max_length:
        raise SpecError(
            f"`{name}` has {lengths[worst]} rows in its example {worst}; `max_length` "
            f"of its Field is {field.max_length}. Cut the example, or make "
            "`max_length` larger."
        )


def _read_pair(pair: tuple[Any, Any], field: Field, name: str) -> Rows:
    values = _as_rows(pair[0], field, f"{name}.values")
    offsets = _as_offsets(pair, name)
    if offsets.ndim != 1 or not len(offsets):
        raise SpecError(
            f"`{name}.offsets` has shape {list(offsets.shape)}; it must be [n + 1] for "
            "n examples."
        )
    _check_offsets(offsets, len(values), name)
    return np.ascontiguousarray(values), np.ascontiguousarray(offsets)


def _as_offsets(pair: tuple[Any, Any], name: str) -> Array:
    if isinstance(pair[1], list):
        raise SpecError(
            f"`{name}.offsets` is a list; it must be an array of int64. Make it one: "
            "`np.asarray(offsets, np.int64)`."
        )
    check_offsets_place(pair[1], name)
    offsets = as_array(pair[1], f"{name}.offsets")
    if offsets.dtype != np.int64:
        hint = "" if isinstance(pair, Ragged) else _TUPLE
        raise SpecError(
            f"`{name}.offsets` has dtype {offsets.dtype}; it must be int64. Convert "
            f"it: `offsets.astype(np.int64)`, or `offsets.long()` of a tensor.{hint}"
        )
    return offsets


def _check_offsets(offsets: Array, total: int, name: str) -> None:
    if offsets[0] != 0:
        raise SpecError(
            f"`{name}.offsets` starts at {offsets[0]}; it must start at 0. Give "
            "`values[offsets[0]:], offsets - offsets[0]`."
        )
    falls = offsets[1:] < offsets[:-1]
    if falls.any():
        at = int(falls.argmax())
        raise SpecError(
            f"`{name}.offsets` falls from {offsets[at]} to {offsets[at + 1]} at "
            f"{at + 1}; offsets must not decrease. Of lengths they are "
            "`np.r_[0, np.cumsum(lengths)]`."
        )
    if offsets[-1] != total:
        raise SpecError(
            f"`{name}.offsets` ends at {offsets[-1]}; it must end at {total}, the "
            f"number of rows of `{name}.values`."
        )


def _join(arrays: list[Any], field: Field, name: str) -> Rows:
    rows = [
        each
        if _is_plain(each, field)
        else _as_rows(each, field, f"{name}[{i}]", of_many=True)
        for i, each in enumerate(arrays)
    ]
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(each) for each in rows], out=offsets[1:])
    values = np.empty((offsets[-1], *field.shape[1:]), field.dtype)
    if rows:
        np.concatenate(rows, out=values)  # which keeps the byte order
    return values, offsets


def _read_dense(leaf: Any, field: Field, name: str) -> Rows:
    if isinstance(leaf, np.ndarray) and leaf.dtype == object:
        raise SpecError(
            f"`{name}` is an array of Python objects; give them as a list, an array "
            "for each example: `list(x)`."
        )
    if isinstance(leaf, Iterator):
        raise SpecError(
            f"`{name}` is of type {type(leaf).__name__}; make it a list, with an array "
            "for each example: `list(x)`."
        )
    array = as_array(leaf, name)
    check_dtype(array, field, name)
    if array.ndim != len(field.shape) + 1 or array.shape[2:] != field.shape[1:]:
        hint = f"Give {_FORMS}."
        if array.shape[1:] == field.shape[1:]:
            hint = f"To put one example, use `put`; for many, give {_FORMS}."
        raise SpecError(
            f"`{name}` has shape {list(array.shape)}; the spec says "
            f"[n, {', '.join(map(str, field.shape))}]. {hint}"
        )
    count, length = array.shape[:2]
    flat = np.ascontiguousarray(array).reshape((count * length, *field.shape[1:]))
    return flat, np.arange(count + 1, dtype=np.int64) * length


def _is_plain(leaf: Any, field: Field) -> bool:
    """Return True for an array as the field says, which needs no conversion.

    A batch has many of them, and all that is asked of other leaves takes much longer.
    """
    return (
        type(leaf) is np.ndarray
        and leaf.dtype == field.dtype
        and leaf.ndim == len(field.shape)
        and leaf.shape[1:] == field.shape[1:]
    )


def _as_rows(leaf: Any, field: Field, name: str, *, of_many: bool = False) -> Array:
    """Return a leaf as an array of the field's dtype and trailing shape."""
    if isinstance(leaf, Ragged | Padded | Packed):
        raise SpecError(
            f"`{name}` is a {type(leaf).__name__}, which holds many examples; give the "
            "array of one, such as `x.to_list()[0]`, or put them with `put_batch`, as "
            "a `Ragged` or a list."
        )
    if isinstance(leaf, list | tuple) or not hasattr(leaf, "__len__"):
        raise SpecError(
            f"`{name}` is of type {type(leaf).__name__}, not an array. "
            f"{_to_array(field, of_many)}"
        )
    if is_nested(leaf):
        raise SpecError(
            f"`{name}` is a nested tensor, of many examples; use `put_batch`."
        )
    array = as_array(bytes_as_array(leaf) if field.dtype == np.uint8 else leaf, name)
    check_dtype(array, field, name)
    if array.ndim != len(field.shape) or array.shape[1:] != field.shape[1:]:
        hint = "Only the length on axis 0 varies."
        if array.ndim == len(field.shape) + 1 and array.shape[2:] == field.shape[1:]:
            hint = "To put examples stacked on axis 0, use `put_batch`."
        raise SpecError(
            f"`{name}` has shape {list(array.shape)}; the spec says "
            f"{list(field.shape)}. {hint}"
        )
    return array


def _to_array(field: Field, of_many: bool) -> str:
    if of_many:
        return (
            "A list holds one array for each example: "
            f"`[np.asarray(x, {str(field.dtype)!r}) for x in ...]`."
        )
    return f"Make it one: `np.asarray(x, {str(field.dtype)!r})`."
