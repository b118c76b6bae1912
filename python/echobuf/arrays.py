"""Arrays that are put, and arrays that are written into: checked leaf by leaf."""

from __future__ import annotations

from typing import Any

import numpy as np

from echobuf.errors import SpecError
from echobuf.field import Field
from echobuf.tree import Spec, as_array

Array = np.ndarray[Any, Any]


def prepare_put(
    leaves: list[Any], spec: Spec, *, stacked: bool, ragged: bool
) -> list[Array]:
    """The leaves of what is put, as arrays that the core takes.

    Args:
        leaves: in the order of the spec.
        spec: of one example, or of one whole batch if `ragged`.
        stacked: examples are stacked on axis 0.
        ragged: the batch axis may be shorter than the spec says.

    Raises:
        SpecError: names the leaf that does not fit.
    """
    what = "batch" if stacked else "example"
    arrays = []
    for leaf, field, path in zip(leaves, spec.fields, spec.paths, strict=True):
        array = as_array(leaf, what + path)
        _check_dtype(array, field, what + path)
        _check_shape(array, field, what + path, stacked=stacked, ragged=ragged)
        arrays.append(array if array.flags.c_contiguous else array.copy(order="C"))
    _check_lengths(arrays, spec, what, stacked=stacked, ragged=ragged)
    return arrays


def _check_dtype(array: Array, field: Field, name: str) -> None:
    if array.dtype != field.dtype:
        raise SpecError(
            f"`{name}` has dtype {_dtype_name(array.dtype)}; the spec says "
            f"{_dtype_name(field.dtype)}. Convert it with `.astype`: nothing is "
            "converted silently."
        )


def _dtype_name(dtype: np.dtype[Any]) -> str:
    return f"{dtype} ({dtype.str})" if not dtype.isnative else str(dtype)


def _check_shape(
    array: Array, field: Field, name: str, *, stacked: bool, ragged: bool
) -> None:
    wanted: list[str] = [str(extent) for extent in field.shape]
    if ragged:
        wanted[0] = f"up to {wanted[0]}"
    if stacked:
        wanted.insert(0, "n")
    inner = array.shape[1:] if stacked else array.shape
    fits = array.ndim == len(wanted) and (
        inner == field.shape
        or (ragged and inner[1:] == field.shape[1:] and inner[0] <= field.shape[0])
    )
    if not fits:
        hint = ""
        if stacked and inner == field.shape[1:]:
            hint = " To put one example, use `put`."
        elif not stacked and array.shape[1:] == field.shape:
            hint = " To put examples stacked on axis 0, use `put_batch`."
        raise SpecError(
            f"`{name}` has shape {list(array.shape)}; the spec says "
            f"[{', '.join(wanted)}].{hint}"
        )


def _check_lengths(
    arrays: list[Array], spec: Spec, what: str, *, stacked: bool, ragged: bool
) -> None:
    axes = [0] if stacked else []
    axes += [len(axes)] if ragged else []
    for axis in axes:
        first = arrays[0].shape[axis]
        for array, path in zip(arrays, spec.paths, strict=True):
            if array.shape[axis] != first:
                raise SpecError(
                    f"`{what}{path}` has {array.shape[axis]} entries on axis {axis}, "
                    f"but `{what}{spec.paths[0]}` has {first}; all leaves must have "
                    "the same number."
                )


def prepare_out(leaves: list[Any], spec: Spec, lead: tuple[int, ...]) -> list[Array]:
    """The leaves of `out` as writable arrays that share the caller's memory.

    Args:
        leaves: in the order of the spec.
        spec: of one example, or of one whole batch.
        lead: extents before the shape that the spec says: `(batch_size,)` or `()`.

    Raises:
        SpecError: names the leaf that has another shape or dtype, is read-only, or
            overlaps itself or another.
    """
    arrays: list[Array] = []
    for leaf, field, path in zip(leaves, spec.fields, spec.paths, strict=True):
        name = "out" + path
        array = _writable_view(leaf, name)
        _check_dtype(array, field, name)
        if array.shape != lead + field.shape:
            raise SpecError(
                f"`{name}` has shape {list(array.shape)}; it must be "
                f"{list(lead + field.shape)}, a whole batch."
            )
        if _overlaps_itself(array):
            raise SpecError(
                f"`{name}` overlaps itself (strides {array.strides}); give an array "
                "whose elements have memory of their own."
            )
        for other, other_path in zip(arrays, spec.paths, strict=False):
            if _share_memory(array, other):
                raise SpecError(
                    f"`{name}` overlaps `out{other_path}`; give arrays that share no "
                    "memory."
                )
        arrays.append(array)
    return arrays


def _writable_view(leaf: Any, name: str) -> Array:
    array = leaf if isinstance(leaf, np.ndarray) else _host_view(leaf, name)
    if not array.flags.writeable:
        raise SpecError(f"`{name}` is read-only; give a writable array.")
    return array


def _host_view(leaf: Any, name: str) -> Array:
    """A view of a tensor's memory; never a copy, into which a batch would vanish."""
    array = as_array(leaf, name)
    address = getattr(leaf, "data_ptr", None)
    shares = (
        address() == array.ctypes.data
        if callable(address)
        else hasattr(leaf, "__array_interface__")
    )
    if not shares:
        raise SpecError(
            f"`{name}` is a {type(leaf).__name__}, whose memory cannot be written "
            "into; give a NumPy array or a CPU tensor."
        )
    return array


def _overlaps_itself(array: Array) -> bool:
    """True unless each axis steps over all that the smaller axes cover."""
    covered = array.itemsize
    axes = sorted(
        (abs(stride), extent)
        for stride, extent in zip(array.strides, array.shape, strict=True)
        if extent > 1
    )
    if array.size == 0:
        return False
    for stride, extent in axes:
        if stride < covered:
            return True
        covered = stride * (extent - 1) + covered
    return False


def _share_memory(one: Array, other: Array) -> bool:
    if not np.may_share_memory(one, other):
        return False
    try:
        return np.shares_memory(one, other, max_work=10_000)  # type: ignore[arg-type]
    except Exception as error:  # TooHardError moved between NumPy's versions
        if type(error).__name__ != "TooHardError":
            raise
        return True
