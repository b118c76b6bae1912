"""Arrays in the memory of a simulated device, which only the device can read."""

from __future__ import annotations

import ctypes
import math
import os
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from echobuf.cuda.simulated import SimulatedDevice
from echobuf.cuda.simulated_driver import driver
from echobuf.errors import DeviceError

_CUDA = 2  # among DLPack's devices
_LEGACY = 1  # the stream that DLPack takes None for
_NO_STREAM = -1  # with which DLPack's consumers see to the order
_CODES = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}
"""DLPack's codes of types that NumPy does not hand over."""
_DEVICE, _CODE = 8, 20  # where a DLTensor has its device and its type's code

_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class ArrayMemory:
    """Memory of an array and its views, which is freed in the order of a stream.

    Attributes:
        written_on: the stream that has written it last, and that frees it.
    """

    def __init__(self, device: SimulatedDevice, size: int) -> None:
        self.device = device
        self._address = driver().lend(device.ordinal, max(size, 1))
        self._freed: weakref.finalize[..., Any] | None = None
        self.write_on(device.current_stream())
        self.__array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (self._address, False),
            "version": 3,
        }

    def write_on(self, stream: int) -> None:
        """Note a stream that writes the memory."""
        self.written_on = stream
        self._keep()
        self._freed = weakref.finalize(self, _free, os.getpid(), self._address, stream)
        self._freed.atexit = False

    def free(self, stream: int) -> None:
        """Free the memory in the order of a stream, before it is collected."""
        self._keep()
        driver().free_on(self._address, stream)

    def _keep(self) -> None:
        if self._freed is not None:
            self._freed.detach()


def _free(process: int, address: int, stream: int) -> None:
    """Free memory, in the process that allocated it."""
    if process == os.getpid():
        driver().free_on(address, stream)


class SimulatedArray:
    """An array on a simulated device, made by `Simulation.array`.

    It stands for what producers on a GPU put: it has `__cuda_array_interface__` and
    `__dlpack__`, and only operations of streams touch its memory. Each method works on
    the thread's current stream, and the driver reports what nothing orders after what
    other streams do with the array. When the last view is collected, the memory is
    freed in the order of the stream that has written it last.

    Examples:
        >>> from echobuf.testing import simulated_cuda
        >>> with simulated_cuda() as simulation:
        ...     images = simulation.array(np.arange(6).reshape(2, 3))
        ...     print(images.T)
        ...     kept = images.copy()
        ...     images[0].copy_from([7, 8, 9])
        ...     print(images.get().tolist(), kept.get().tolist())
        ...     images.free()
        SimulatedArray(shape=(3, 2), dtype=int64, device=0)
        [[7, 8, 9], [3, 4, 5]] [[0, 1, 2], [3, 4, 5]]
    """

    def __init__(self, memory: ArrayMemory, ghost: np.ndarray[Any, Any]) -> None:
        self._memory = memory
        self._ghost = ghost  # an array of NumPy there: for shapes, never looked into

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the axes."""
        shape: tuple[int, ...] = self._ghost.shape
        return shape

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes from one element to the next, along each axis."""
        return self._ghost.strides

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._ghost.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements, as NumPy's."""
        dtype: np.dtype[Any] = self._ghost.dtype
        return dtype

    @property
    def device(self) -> int:
        """The number of the device that it is on."""
        return self._memory.device.ordinal

    @property
    def T(self) -> SimulatedArray:  # noqa: N802 - NumPy's name
        """The array with its axes in reverse order, over the same memory."""
        return SimulatedArray(self._memory, self._ghost.T)

    def __len__(self) -> int:
        return len(self._ghost)

    def __repr__(self) -> str:
        shape, dtype, device = self.shape, self.dtype, self.device
        return f"SimulatedArray(shape={shape}, dtype={dtype}, device={device})"

    def __getitem__(self, index: Any) -> SimulatedArray:
        """Return a view of a part: `index` is of integers, slices, None and `...`."""
        parts = index if isinstance(index, tuple) else (index,)
        if not all(part is None or part is ... or _is_basic(part) for part in parts):
            raise TypeError(
                f"`index` is {index!r}; a view of an array on a simulated device takes "
                "integers, slices, None and `...`."
            )
        # With `...` a single element is an array, too, and nothing is read.
        whole = parts if any(part is ... for part in parts) else (*parts, ...)
        return SimulatedArray(self._memory, self._ghost[whole])

    def copy_from(self, values: Any) -> None:
        """Overwrite the elements, in the order of the current stream.

        Args:
            values: what NumPy would broadcast and convert to the elements.
        """
        host = np.empty(self.shape, self.dtype)
        host[...] = values
        stream = self._stream()
        driver().write(self.device, stream, _runs(self._ghost, host))
        self._memory.write_on(stream)

    def copy(self) -> SimulatedArray:
        """Return a copy in memory of its own, in the order of the current stream."""
        made = _empty(self._memory.device, self.shape, self.dtype)
        stream = self._stream()
        driver().copy(self.device, stream, _runs(made._ghost, self._ghost))  # noqa: SLF001 - own
        return made

    def get(self) -> np.ndarray[Any, Any]:
        """Return a copy of the elements, in the order of the current stream."""
        host = np.empty(self.shape, self.dtype)
        driver().read(self.device, self._stream(), _runs(host, self._ghost))
        return host

    def free(self) -> None:
        """Free the memory, that of all views, in the order of the current stream.

        What uses it later, or at the same time, is reported.
        """
        self._memory.free(self._stream())

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        raise TypeError(
            "an array on a simulated device is no NumPy array; `get()` copies it."
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.dtype.name in _CODES:
            raise AttributeError(f"no typestr means {self.dtype}; use `__dlpack__`.")
        address = self._ghost.ctypes.data if self._ghost.size else 0
        return {
            "shape": self.shape,
            "strides": None if self._ghost.flags.c_contiguous else self.strides,
            "typestr": self.dtype.str,
            "data": (address, False),
            "version": 3,
            "stream": self._stream(),
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self.device

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a capsule; `stream` waits for the stream that wrote the array last."""
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("an array on a simulated device is handed over as it is.")
        self._stream()
        if stream != _NO_STREAM:
            reading = _LEGACY if stream is None else stream
            driver().join(self.device, reading, self._memory.written_on)
        return self._capsule()

    def _capsule(self) -> Any:
        """Return a capsule of NumPy's, with the device and the type that it lacks."""
        code = _CODES.get(self.dtype.name)
        ghost = self._ghost
        capsule = (ghost if code is None else _integers(ghost)).__dlpack__()
        tensor = _pointer_of(capsule, b"dltensor")
        device = (ctypes.c_int32 * 2).from_address(tensor + _DEVICE)
        device[:] = list(self.__dlpack_device__())
        if code is not None:
            ctypes.c_uint8.from_address(tensor + _CODE).value = code
        return capsule

    def _stream(self) -> int:
        """Return the current stream.

        Raises:
            DeviceError: the simulation has ended.
        """
        owner = self._memory.device
        if owner.gone is not None:
            raise DeviceError(owner.gone)
        return owner.current_stream()


def to_device(device: SimulatedDevice, values: np.ndarray[Any, Any]) -> SimulatedArray:
    """Return an array on a device with these values, written on the current stream."""
    if values.dtype.kind not in "biufc" and values.dtype.name not in _CODES:
        raise TypeError(f"`values` are {values.dtype}; a device has numbers.")
    array = _empty(device, values.shape, values.dtype)
    array.copy_from(values)
    return array


def _empty(
    device: SimulatedDevice, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> SimulatedArray:
    memory = ArrayMemory(device, math.prod(shape) * dtype.itemsize)
    return SimulatedArray(memory, np.ndarray(shape, dtype, np.asarray(memory)))


def _is_basic(part: Any) -> bool:
    return isinstance(part, (int, slice, np.integer)) and not isinstance(part, bool)


def _integers(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.view(f"u{array.dtype.itemsize}")


def _runs(
    to: np.ndarray[Any, Any], source: np.ndarray[Any, Any]
) -> Iterator[tuple[int, int, int]]:
    """Yield addresses and bytes of the copies that bring all elements over."""
    if to.flags.c_contiguous and source.flags.c_contiguous:
        yield to.ctypes.data, source.ctypes.data, to.nbytes
        return
    for row in range(len(to)):
        yield from _runs(to[row, ...], source[row, ...])
