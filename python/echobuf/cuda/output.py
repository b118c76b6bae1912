"""Arrays and tensors on a device that batches are written into, checked."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from echobuf._engine.out import OutArrays
from echobuf.arrays import Array
from echobuf.errors import SpecError
from echobuf.field import Field
from echobuf.tree import Spec


class DeviceOut(OutArrays):
    """The checks of `out` on a device, made on NumPy arrays that are never read.

    These have the address, shape and strides of the caller's arrays on the device, so
    that the rules are those of the CPU.

    Args:
        ordinal: the device that the arrays must be on.
        spec: of one example, or of one whole batch.
        lead: extents before the shape that the spec says.
    """

    def __init__(self, ordinal: int, spec: Spec, lead: tuple[int, ...]) -> None:
        super().__init__(spec, lead)
        self._ordinal = ordinal
        # The last arrays that passed; one tuple, because threads may share it.
        self._last: tuple[list[Any], list[int], bool] = ([], [], True)

    def find(self, leaves: list[Any]) -> tuple[list[int], bool]:
        """Return the addresses of the leaves, and if each can be drawn into as it is.

        Leaves can be if all are contiguous, and at multiples of their items' sizes.

        Raises:
            SpecError: names the leaf that has another shape or dtype, is elsewhere, is
                read-only, or overlaps itself or another.
        """
        seen = [_signature(leaf) for leaf in leaves]
        known, addresses, contiguous = self._last
        if None in seen or seen != known:
            arrays = self.check(leaves)
            addresses = [int(array.ctypes.data) for array in arrays]
            contiguous = all(
                array.flags.c_contiguous and _is_aligned(array) for array in arrays
            )
            self._last = seen, addresses, contiguous
        return addresses, contiguous

    def is_aligned(self, index: int, leaf: Any) -> bool:
        """Return True if kernels can store whole items of leaf number `index` there."""
        return _is_aligned(self._find(index, leaf))

    def bytes_of(self, index: int, leaf: Any) -> DeviceBytes:
        """Return the bytes of an array that has the dtype of leaf number `index`."""
        return DeviceBytes(self._find(index, leaf))

    def _find(self, index: int, leaf: Any) -> Array:
        path = self._spec.paths[index]
        return self._view(leaf, self._spec.fields[index], f"out{path}")

    def _view(self, leaf: Any, field: Field, name: str) -> Array:
        if is_tensor(leaf):
            return self._view_tensor(leaf, field, name)
        if _is_cupys(leaf):
            if leaf.device.id != self._ordinal:
                raise self._elsewhere(name, f"on cuda:{leaf.device.id}")
            place = (int(leaf.data.ptr), False)
            return _ghost(place, leaf.shape, leaf.strides, leaf.dtype)
        interface = getattr(leaf, "__cuda_array_interface__", None)
        if interface is None:
            raise self._elsewhere(name, f"a {type(leaf).__name__} in host memory")
        number = getattr(getattr(leaf, "device", None), "id", self._ordinal)
        if number != self._ordinal:
            raise self._elsewhere(name, f"on cuda:{number}")
        dtype = np.dtype(getattr(leaf, "dtype", interface["typestr"]))
        strides = interface.get("strides")
        return _ghost(interface["data"], interface["shape"], strides, dtype)

    def _view_tensor(self, tensor: Any, field: Field, name: str) -> Array:
        if tensor.device.type != "cuda" or tensor.device.index != self._ordinal:
            raise self._elsewhere(name, f"on {tensor.device}")
        if str(tensor.layout) != "torch.strided":
            raise SpecError(f"`{name}` is {tensor.layout}; give a dense tensor.")
        if tensor.requires_grad:
            raise SpecError(
                f"`{name}` requires a gradient, which cannot be written into; give a "
                "tensor that does not."
            )
        if str(tensor.dtype).partition(".")[2] != field.dtype.name:
            raise SpecError(
                f"`{name}` has dtype {tensor.dtype}; the spec says {field.dtype}. "
                "Convert it with `.to`: nothing is converted silently."
            )
        size = tensor.element_size()
        strides = tuple(step * size for step in tensor.stride())
        place = (tensor.data_ptr(), False)
        return _ghost(place, tuple(tensor.shape), strides, field.dtype)

    def _elsewhere(self, name: str, where: str) -> SpecError:
        return SpecError(
            f"`{name}` is {where}; it must be an array of CuPy or a tensor of torch on "
            f"cuda:{self._ordinal}, where the buffer is."
        )


def _is_aligned(array: Array) -> bool:
    return int(array.ctypes.data) % int(array.dtype.itemsize) == 0


class DeviceBytes:
    """The bytes of an array on a device, as a `__cuda_array_interface__`.

    Args:
        array: NumPy's, with the address on the device.
    """

    def __init__(self, array: Array) -> None:
        self.__cuda_array_interface__ = {
            "version": 3,
            "data": (int(array.ctypes.data), False),
            "shape": (*array.shape, array.dtype.itemsize),
            "strides": (*array.strides, 1),
            "typestr": "|u1",
        }


def is_tensor(leaf: Any) -> bool:
    """Return whether `leaf` is a tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(leaf, torch.Tensor)


def _is_cupys(leaf: Any) -> bool:
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(leaf, cupy.ndarray)


def _signature(leaf: Any) -> Any:
    """Return all that the checks read of a leaf; None if that takes long to read."""
    if is_tensor(leaf):
        try:
            return (
                leaf.data_ptr(),
                leaf.shape,
                leaf.stride(),
                leaf.dtype,
                leaf.device,
                leaf.requires_grad,
            )
        except RuntimeError:  # a tensor that is not dense
            return None
    if _is_cupys(leaf):
        return leaf.data.ptr, leaf.shape, leaf.strides, leaf.dtype
    return None


class _Ghost:
    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


def _ghost(
    place: tuple[int, bool],
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    dtype: np.dtype[Any],
) -> Array:
    """Return a NumPy array with an address on the device, which must never be read."""
    address, read_only = place
    interface = {
        "version": 3,
        "data": (address or 1, read_only),  # empty arrays may have no address
        "shape": tuple(shape),
        "strides": strides,
        "typestr": f"|V{dtype.itemsize}",
    }
    return np.asarray(_Ghost(interface)).view(dtype)
