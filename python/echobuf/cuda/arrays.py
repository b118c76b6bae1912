"""Arrays on a device that batches are drawn into: their base, and checks of `out`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from echobuf.device_arrays import cupy_stream, is_cupys, is_tensor
from echobuf.device_views import ghost
from echobuf.errors import OptionError, SpecError
from echobuf.field import Field
from echobuf.out import Array, OutArrays
from echobuf.spec import Spec

Count: TypeAlias = int | list[int]
"""The number of rows of all leaves, or of each."""

Shapes: TypeAlias = list[tuple[int, ...]]
"""The shapes of the leaves of a batch."""


Places: TypeAlias = list[tuple[tuple[int, ...], np.dtype[Any], int]]
"""Shape, dtype and offset of each array in a block of memory."""

_ALIGNMENT = 512  # what the allocators of CUDA give


def places_of(shapes: Shapes, dtypes: Sequence[np.dtype[Any]]) -> tuple[Places, int]:
    """Return the places of arrays in one block, and the bytes of the block."""
    places, end = [], 0
    for shape, dtype in zip(shapes, dtypes, strict=True):
        places.append((shape, dtype, end))
        size = math.prod(shape) * dtype.itemsize
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return places, max(end, 1)


def handle_of(stream: Any, ordinal: int) -> int:
    """Return the handle of a stream of CuPy, of torch, or of `__cuda_stream__`.

    Args:
        stream: has `ptr` (CuPy) or `cuda_stream` (torch), speaks the protocol
            `__cuda_stream__`, or is the handle itself, as an int.
        ordinal: the device that it must be of, if it has a device.

    Raises:
        OptionError: `stream` is none of these, or is of another device.
    """
    if isinstance(stream, int) and not isinstance(stream, bool) and stream >= 0:
        return stream
    number = _device_of(stream)
    if number not in (None, ordinal):
        raise OptionError(
            f"`stream` is on cuda:{number}, but the buffer is on cuda:{ordinal}; give "
            "a stream of the buffer's device."
        )
    for name in ("ptr", "cuda_stream"):
        handle = getattr(stream, name, None)
        if isinstance(handle, int):
            return handle
    protocol = getattr(stream, "__cuda_stream__", None)
    if callable(protocol):
        return int(protocol()[1])
    raise OptionError(
        f"`stream` is {stream!r}; it must be a CUDA stream of CuPy or torch, an object "
        "with `__cuda_stream__`, or a stream's handle as an int."
    )


def _device_of(stream: Any) -> int | None:
    """Return the number of the device of a stream of CuPy or torch, if it has one."""
    number = getattr(stream, "device_id", None)  # CuPy's; -1: of any
    if number is None:
        number = getattr(getattr(stream, "device", None), "index", None)  # torch's
    return number if isinstance(number, int) and number >= 0 else None


class Arrays(ABC):
    """Arrays of batches on a device: new ones, and the caller's.

    Args:
        ordinal: the number of the device.
        spec: of one example, or of one whole batch.
        lead: extents before the shape that the spec says.
    """

    def __init__(self, ordinal: int, spec: Spec, lead: tuple[int, ...]) -> None:
        self._ordinal = ordinal
        self._dtypes = [field.dtype for field in spec.fields]
        self._shapes = [lead + field.shape for field in spec.fields]

    @abstractmethod
    def current(self, leaves: Sequence[Any] = ()) -> int:
        """Return the handle of the stream that the caller uses some leaves on.

        Args:
            leaves: without any, the caller's current stream.
        """

    @abstractmethod
    def empty(
        self, stream: int, shapes: Shapes | None = None
    ) -> tuple[list[Any], list[int]]:
        """Return new arrays for one batch, and their addresses.

        Args:
            stream: the one that uses them first.
            shapes: of the leaves, where these differ from batch to batch; else they are
                as the spec says.
        """

    @abstractmethod
    def check(self, leaves: list[Any]) -> tuple[list[int], bool]:
        """Return the addresses of the caller's arrays, and if they can be drawn into.

        Raises:
            SpecError: names the leaf that does not fit.
        """

    @abstractmethod
    def copy(
        self, leaves: list[Any], drawn: list[Any], counts: list[int], stream: int
    ) -> None:
        """Copy rows to the caller's leaves, in the order of the stream."""

    def stream(self, stream: Any) -> int:
        """Return the handle of `stream`; if it is None, of the caller's current one."""
        return self.current() if stream is None else handle_of(stream, self._ordinal)

    def stream_of(self, leaves: list[Any], stream: Any) -> int:
        """Return the handle of `stream`; if it is None, of that of these leaves."""
        return self.current(leaves) if stream is None else self.stream(stream)

    def stream_of_put(self, leaves: list[Any], stream: Any) -> int:
        """As `stream_of`, for leaves that are read: of CuPy's arrays it is CuPy's."""
        if stream is None and any(map(is_cupys, leaves)):
            return cupy_stream(self._ordinal)
        return self.stream_of(leaves, stream)

    def out(self, leaves: list[Any], stream: Any) -> tuple[list[Any], list[int], int]:
        """Return arrays to draw into: the caller's, or others that are copied to them.

        Returns:
            The arrays, which `finish` takes; their addresses; the handle of the stream
            to draw on.

        Raises:
            SpecError: names the leaf that does not fit.
        """
        addresses, are_drawn_into = self.check(leaves)
        handle = self.stream_of(leaves, stream)
        if are_drawn_into:
            return leaves, addresses, handle
        return *self.empty(handle), handle

    def finish(
        self, leaves: list[Any], drawn: list[Any], count: Count, stream: int
    ) -> None:
        """Bring a batch that was drawn on `stream` to the caller's arrays.

        Args:
            leaves: the caller's, or those from `empty`.
            drawn: the arrays drawn into: `leaves` themselves, or others.
            count: the number of rows of the batch, or of each leaf.
            stream: the stream of the draw; nothing waits for a copy on it.
        """
        if drawn is not leaves:
            counts = [count] * len(leaves) if isinstance(count, int) else count
            self.copy(leaves, drawn, counts, stream)


# ---- the caller's arrays on a device that only kernels reach


class DeviceArrays(Arrays):
    """The base of arrays that are copied on the device."""

    def __init__(self, ordinal: int, spec: Spec, lead: tuple[int, ...]) -> None:
        super().__init__(ordinal, spec, lead)
        self._out = DeviceOut(ordinal, spec, lead)

    def check(self, leaves: list[Any]) -> tuple[list[int], bool]:
        """Return the addresses of arrays, which are drawn into if they are dense."""
        return self._out.find(leaves)

    def copy(
        self, leaves: list[Any], drawn: list[Any], counts: list[int], stream: int
    ) -> None:
        """Copy rows; of an array that no kernel can store items to, their bytes."""
        targets, sources = list(leaves), list(drawn)
        for index, leaf in enumerate(leaves):
            if not self._out.is_aligned(index, leaf):
                targets[index] = self._out.bytes_of(index, leaf)
                sources[index] = self._out.bytes_of(index, drawn[index])
        self.copy_rows(targets, sources, counts, stream)

    @abstractmethod
    def copy_rows(
        self, targets: list[Any], sources: list[Any], counts: list[int], stream: int
    ) -> None:
        """Copy rows of arrays on the device, in the order of the stream."""


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
        if is_cupys(leaf):
            if leaf.device.id != self._ordinal:
                raise self._elsewhere(name, f"on cuda:{leaf.device.id}")
            place = (int(leaf.data.ptr), False)
            return ghost(place, leaf.shape, leaf.strides, leaf.dtype)
        interface = getattr(leaf, "__cuda_array_interface__", None)
        if interface is None:
            raise self._elsewhere(name, f"a {type(leaf).__name__} in host memory")
        number = getattr(getattr(leaf, "device", None), "id", self._ordinal)
        if number != self._ordinal:
            raise self._elsewhere(name, f"on cuda:{number}")
        dtype = np.dtype(getattr(leaf, "dtype", interface["typestr"]))
        strides = interface.get("strides")
        return ghost(interface["data"], interface["shape"], strides, dtype)

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
        return ghost(place, tuple(tensor.shape), strides, field.dtype)

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
    if is_cupys(leaf):
        return leaf.data.ptr, leaf.shape, leaf.strides, leaf.dtype
    return None
