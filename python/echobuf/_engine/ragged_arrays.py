"""Ragged leaves that are put: one array an example, or those of many together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from echobuf import hints
from echobuf._engine.checks import check_dtype
from echobuf.errors import SpecError
from echobuf.field import Field
from echobuf.ragged import Padded
from echobuf.spec import as_array

Array = np.ndarray[Any, Any]
Rows = tuple[Array, Array]
"""The rows of many arrays, and int64 offsets of where each begins and the last ends."""

_BYTES = (bytes, bytearray, memoryview)
_FORMS = (
    "a list of arrays, `echobuf.Ragged(values, offsets)`, a jagged nested tensor, or "
    "an Arrow array of lists"
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
    if _too_long(len(array), field):
        raise SpecError(
            f"`{name}` has {len(array)} rows on axis 0; `max_length` of its Field is "
            f"{field.max_length}. Cut it, `x[:{field.max_length}]`, or make "
            "`max_length` larger."
        )
    return array if array.flags.c_contiguous else array.copy(order="C")


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
    values, offsets = _read_stacked(leaf, field, name)
    if field.max_length is not None:
        lengths = np.diff(offsets)
        if len(lengths) and _too_long(int(lengths.max()), field):
            worst = int(lengths.argmax())
            raise SpecError(
                f"`{name}` has {lengths[worst]} rows in its example {worst}; "
                f"`max_length` of its Field is {field.max_length}. Cut the example, or "
                "make `max_length` larger."
            )
    return values, offsets


def _too_long(length: int, field: Field) -> bool:
    return field.max_length is not None and length > field.max_length


def _read_stacked(leaf: Any, field: Field, name: str) -> Rows:
    if isinstance(leaf, Padded):
        raise SpecError(
            f"`{name}` is a Padded; give its arrays alone, `x.to_list()`: padding is "
            "made when batches are drawn."
        )
    if isinstance(leaf, tuple):
        return _read_pair(leaf, field, name)
    if isinstance(leaf, list):
        return _read_list(leaf, field, name)
    if is_nested(leaf):
        return _read_nested(leaf, field, name)
    if is_arrow(leaf):
        return read_arrow(leaf, field, name)
    return _read_dense(leaf, field, name)


def _read_pair(leaf: tuple[Any, ...], field: Field, name: str) -> Rows:
    if len(leaf) != 2:
        raise SpecError(
            f"`{name}` is a tuple of {len(leaf)}; a tuple must be `(values, offsets)`. "
            "Give arrays as a list: `list(x)`."
        )
    values = _as_rows(leaf[0], field, f"{name}.values")
    offsets = as_array(leaf[1], f"{name}.offsets")
    if offsets.dtype != np.int64:
        raise SpecError(
            f"`{name}.offsets` has dtype {offsets.dtype}; it must be int64. Convert "
            "it: `offsets.astype(np.int64)`."
        )
    if offsets.ndim != 1 or not len(offsets):
        raise SpecError(
            f"`{name}.offsets` has shape {list(offsets.shape)}; it must be [n + 1] for "
            "n examples."
        )
    _check_offsets(offsets, len(values), name)
    return np.ascontiguousarray(values), np.ascontiguousarray(offsets)


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


def _read_list(leaf: list[Any], field: Field, name: str) -> Rows:
    arrays = [
        _as_rows(each, field, f"{name}[{i}]", stacked=True)
        for i, each in enumerate(leaf)
    ]
    return join(arrays, field)


def join(arrays: Sequence[Array], field: Field) -> Rows:
    """Return arrays `[length, *shape]` one after the other, and their offsets."""
    offsets = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([len(each) for each in arrays], out=offsets[1:])
    if not arrays:
        return np.empty((0, *field.shape[1:]), field.dtype), offsets
    return np.concatenate(arrays), offsets


def _read_dense(leaf: Any, field: Field, name: str) -> Rows:
    array = as_array(_as_bytes(leaf, field), name)
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


# ---- one array


def _as_rows(leaf: Any, field: Field, name: str, *, stacked: bool = False) -> Array:
    """Return a leaf as an array of the field's dtype and trailing shape."""
    if isinstance(leaf, list | tuple) or not hasattr(leaf, "__len__"):
        what = type(leaf).__name__
        raise SpecError(
            f"`{name}` is of type {what}, not an array. {_to_array(field, stacked)}"
        )
    if is_nested(leaf):
        raise SpecError(
            f"`{name}` is a nested tensor, of many examples; use `put_batch`."
        )
    array = as_array(_as_bytes(leaf, field), name)
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


def _to_array(field: Field, stacked: bool) -> str:
    if stacked:
        return (
            "A list holds one array for each example: "
            f"`[np.asarray(x, {str(field.dtype)!r}) for x in ...]`."
        )
    return f"Make it one: `np.asarray(x, {str(field.dtype)!r})`."


def _as_bytes(leaf: Any, field: Field) -> Any:
    """Return bytes as an array of uint8, if the field is of that; else the leaf."""
    if field.dtype != np.uint8 or not isinstance(leaf, _BYTES):
        return leaf
    if isinstance(leaf, memoryview) and leaf.format != "B":
        return leaf
    return np.frombuffer(leaf, np.uint8)


# ---- other libraries'


def is_nested(leaf: Any) -> bool:
    """Return True for a nested tensor of torch's."""
    return hints.is_of(leaf, "torch", "Tensor") and leaf.is_nested


def is_arrow(leaf: Any) -> bool:
    """Return True for an array of Arrow's, also one in chunks."""
    return any(hints.is_of(leaf, "pyarrow", name) for name in ("Array", "ChunkedArray"))


def split_nested(tensor: Any, name: str) -> Any:
    """Return a nested tensor's values and offsets, tensors; or a list of tensors.

    Raises:
        SpecError: its ragged axis is not the first after the batch axis.
    """
    tensor = tensor.detach()
    if "jagged" not in str(tensor.layout):
        return list(tensor.unbind())
    if getattr(tensor, "_ragged_idx", 1) != 1:
        raise SpecError(
            f"`{name}` is a nested tensor whose ragged axis is not axis 1; transpose "
            "it back."
        )
    if tensor.lengths() is not None:  # with gaps between its rows
        tensor = tensor.contiguous()
    return tensor.values(), tensor.offsets()


def _read_nested(leaf: Any, field: Field, name: str) -> Rows:
    parts = split_nested(leaf, name)
    if isinstance(parts, list):
        return _read_list(parts, field, name)
    values = _as_rows(parts[0], field, name)
    # Offsets of torch's may be int32.
    offsets = as_array(parts[1], f"{name}.offsets()").astype(np.int64)
    return np.ascontiguousarray(values[: offsets[-1]]), offsets


def read_arrow(leaf: Any, field: Field, name: str) -> Rows:
    """Return the values and offsets of an array of lists, or of binary strings.

    Nothing is copied for each list; the chunks of a column are joined.

    Raises:
        SpecError: it holds nulls, or something else than the field.
    """
    if hasattr(leaf, "chunks"):
        chunks = [read_arrow(each, field, name) for each in leaf.chunks]
        return _join_chunks(chunks, field)
    if leaf.null_count:
        raise SpecError(
            f"`{name}` has {leaf.null_count} nulls; leave those examples out, or fill "
            "in empty lists: `x.fill_null([])`."
        )
    kind = str(leaf.type)
    if kind in ("binary", "large_binary", "string", "large_string"):
        values, offsets = _of_binary(leaf, kind)
    elif hasattr(leaf, "offsets"):
        offsets = leaf.offsets.to_numpy().astype(np.int64)
        values = _of_values(leaf.flatten(), name)
    elif kind.startswith("fixed_size_list"):
        values = _of_values(leaf.flatten(), name)
        offsets = np.arange(len(leaf) + 1, dtype=np.int64) * leaf.type.list_size
    else:
        raise SpecError(
            f"`{name}` is an Arrow array of {kind}; it must be one of lists, a list "
            "for each example."
        )
    return _as_rows(values, field, name), offsets - offsets[0]


def _of_binary(leaf: Any, kind: str) -> Rows:
    """Return the bytes of an array of binary strings, and their offsets."""
    _, offsets, data = leaf.buffers()
    width = np.int64 if kind.startswith("large") else np.int32
    bounds = np.frombuffer(offsets, width)[leaf.offset : leaf.offset + len(leaf) + 1]
    if not len(leaf) or data is None:
        return np.empty(0, np.uint8), np.zeros(len(leaf) + 1, np.int64)
    return np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]], bounds.astype(
        np.int64
    )


def _of_values(values: Any, name: str) -> Array:
    """Return the values of lists as an array; those of lists of fixed size, too."""
    shape: list[int] = []
    while str(values.type).startswith("fixed_size_list"):
        shape.append(values.type.list_size)
        values = values.flatten()
    try:
        return np.asarray(values.to_numpy(zero_copy_only=True)).reshape(-1, *shape)
    except Exception as error:  # ArrowInvalid, of a package that is not imported here
        if type(error).__name__ not in ("ArrowInvalid", "ArrowNotImplementedError"):
            raise
        raise SpecError(
            f"`{name}` holds lists of {values.type} that are no plain numbers, or that "
            "have nulls in them; convert them with `pyarrow.compute`."
        ) from None


def _join_chunks(chunks: list[Rows], field: Field) -> Rows:
    if len(chunks) == 1:
        return chunks[0]
    ends = itertools.accumulate((len(values) for values, _ in chunks), initial=0)
    offsets = [part[1:] + end for (_, part), end in zip(chunks, ends, strict=False)]
    values = [values for values, _ in chunks] or [
        np.empty((0, *field.shape[1:]), field.dtype)
    ]
    return np.concatenate(values), np.concatenate([np.zeros(1, np.int64), *offsets])
