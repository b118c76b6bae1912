"""Arrays that batches are drawn into: `out` of `next_batch`, checked leaf by leaf."""

from __future__ import annotations

from typing import Any

import numpy as np

from echobuf.errors import SpecError
from echobuf.field import Field, check_dtype
from echobuf.spec import Spec, as_array

Array = np.ndarray[Any, Any]


class OutArrays:
    """Checks what is given as `out`, where the core does not take it as it is.

    Args:
        spec: of one example, or of one whole batch.
        lead: extents before the shape that the spec says: `(batch_size,)` or `()`.
    """

    def __init__(self, spec: Spec, lead: tuple[int, ...]) -> None:
        self._spec = spec
        self._lead = lead

    def check(self, leaves: list[Any]) -> list[Array]:
        """Return the leaves as plain writable arrays that share the caller's memory.

        Args:
            leaves: in the order of the spec.
        """
        arrays: list[Array] = []
        paths = self._spec.paths
        for leaf, field, path in zip(leaves, self._spec.fields, paths, strict=True):
            array = self._check_leaf(leaf, field, "out" + path)
            for other, other_path in zip(arrays, paths, strict=False):
                if _share_memory(array, other):
                    raise SpecError(
                        f"`out{path}` overlaps `out{other_path}`; give arrays that "
                        "share no memory."
                    )
            arrays.append(array)
        return arrays

    def _check_leaf(self, leaf: Any, field: Field, name: str) -> Array:
        array = self._view(leaf, field, name)
        if not array.flags.writeable:
            raise SpecError(f"`{name}` is read-only; give a writable array.")
        check_dtype(array, field, name)
        if array.shape != self._lead + field.shape:
            raise SpecError(
                f"`{name}` has shape {list(array.shape)}; it must be "
                f"{list(self._lead + field.shape)}, a whole batch."
            )
        if _overlaps_itself(array):
            raise SpecError(
                f"`{name}` overlaps itself (strides {array.strides}); give an array "
                "whose elements have memory of their own."
            )
        return array

    def _view(self, leaf: Any, field: Field, name: str) -> Array:
        """Return the memory of a leaf, of whatever shape and dtype it is."""
        if isinstance(leaf, np.ma.MaskedArray):
            raise SpecError(
                f"`{name}` is a masked array, whose mask would stay as it is; give a "
                "plain one."
            )
        if isinstance(leaf, np.ndarray):
            return as_array(leaf, name)
        return _host_view(leaf, name)


def _host_view(leaf: Any, name: str) -> Array:
    """Return a view of a tensor's memory, never a copy: a batch would be lost there."""
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
    """Return True unless each axis steps over all that the smaller axes cover."""
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
