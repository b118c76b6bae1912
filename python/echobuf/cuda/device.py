"""CUDA devices: how they are opened, with CuPy or simulated; errors of the driver."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, TypeAlias

from echobuf import _core
from echobuf.cuda.arrays import Arrays
from echobuf.cuda.codegen import StageSource
from echobuf.errors import DeviceError, ForkError
from echobuf.spec import Spec

LIBRARY = "libcuda.so.1"

UseStream: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Returns a context in which a stream and its device are the thread's current ones."""


@dataclass(frozen=True)
class LoadedStages:
    """Kernels of chains, loaded as long as this object lives.

    Attributes:
        handles: of each stage: the kernel that makes it, and the one that sums for its
            mean, or 0.
        loaded: the objects that keep them loaded.
    """

    handles: list[tuple[int, int]]
    loaded: Any = None


class Device(Protocol):
    """A CUDA device: its kernels, and the arrays of batches.

    Attributes:
        name: such as "cuda:0".
        ordinal: its number.
        core: the native device.
        pid: the process that opened it.
        gone: the reason why it can no longer be used, or None.
    """

    name: str
    ordinal: int
    core: _core.Device
    pid: int
    gone: str | None

    def add(self, buffer: _core.DeviceBuffer) -> None:
        """Register a buffer that was made on the device."""

    def kernels(self) -> dict[str, int]:
        """Return the handles of the kernels, compiled for this device, by name."""

    def stages(self, source: StageSource) -> LoadedStages:
        """Return the kernels of chains, compiled for this device."""

    def arrays(self, spec: Spec, lead: tuple[int, ...]) -> Arrays:
        """Return the arrays of batches.

        Args:
            spec: of one example, or of one whole batch.
            lead: extents before the shape that the spec says.
        """

    def tensors(self, spec: Spec, lead: tuple[int, ...], dtypes: list[Any]) -> Arrays:
        """Return the tensors of batches; `dtypes`: torch's, or None for the spec's."""


class Opener(Protocol):
    """A function that opens devices by their number; None is the current one."""

    def __call__(self, ordinal: int | None) -> Device:
        """Return the device, which may have been opened before."""


_opened: dict[int, Device] = {}
_opening = threading.Lock()
_opener: Opener | None = None  # in place of CuPy's
_caller_stream: Callable[[int | None], list[UseStream]] | None = None  # likewise


def _renew_lock() -> None:
    global _opening  # noqa: PLW0603
    _opening = threading.Lock()  # a forked child lacks the thread that held it


os.register_at_fork(after_in_child=_renew_lock)


def set_opener(
    opener: Opener | None,
    stream: Callable[[int | None], list[UseStream]] | None = None,
) -> None:
    """Open devices with `opener` from now on; None: with CuPy.

    Args:
        opener: the function.
        stream: returns what `caller_stream` does, of a device by its number.
    """
    global _opener, _caller_stream
    _opener, _caller_stream = opener, stream


def is_simulated() -> bool:
    """Return whether devices are opened by another opener than CuPy's."""
    return _opener is not None


def open_device(name: str) -> Device:
    """Return the device called "cuda" or "cuda:N".

    Raises:
        DeviceError: it cannot be used; the message says how to fix that.
    """
    ordinal = _ordinal_of(name)
    if _opener is not None:
        return _opener(ordinal)
    return _open_with_cupy(ordinal)


def _ordinal_of(name: str) -> int | None:
    return int(name[5:]) if ":" in name else None


def _open_with_cupy(ordinal: int | None) -> Device:
    from echobuf.cuda import cupy_device

    for device in list(_opened.values()):  # before any call of the driver
        if device.pid != os.getpid():
            raise DeviceError(
                f"`device` is {device.name!r}; CUDA was started before this process "
                "was forked, and cannot be used in a forked child. Use the start "
                "method 'spawn', or make the buffer before anything uses CUDA."
            )
    if ordinal is None:
        ordinal = cupy_device.current_ordinal()
    with _opening:
        if ordinal not in _opened:
            _opened[ordinal] = cupy_device.CupyDevice(ordinal)
        return _opened[ordinal]


def caller_stream(name: str) -> list[UseStream]:
    """Return what makes the calling thread's current stream that of another thread.

    Args:
        name: of the device, "cuda" or "cuda:N".

    Returns:
        A function that returns a context; nothing where the stream is a default one, or
        CuPy is not loaded.
    """
    if _caller_stream is not None:
        return _caller_stream(_ordinal_of(name))
    if "cupy" not in sys.modules:
        return []
    from echobuf.cuda import cupy_arrays

    return cupy_arrays.caller_stream()


_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


class relaxed:  # noqa: N801 - a context manager without a generator, for each batch
    """A context in which this thread may allocate and load modules during a capture.

    In the default mode the driver refuses such calls in all threads while one captures,
    and its capture is lost.

    Args:
        device: the core's.
    """

    __slots__ = ("_before", "_device")

    def __init__(self, device: _core.Device) -> None:
        self._device = device

    def __enter__(self) -> None:
        self._before = self._device.exchange_capture_mode(_RELAXED)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._device.exchange_capture_mode(self._before)


# ---- errors of the driver

OUT_OF_MEMORY = 2
_OPERATING_SYSTEM = 304
_GONE = (
    "The device's context is gone: somebody has reset the device. The kernels and the "
    "memory of CuPy and torch are gone with it: restart the process."
)
_CAPTURE = (
    "A stream is being captured, or its capture has gone wrong: draw on the stream "
    "that is captured, or after the capture. Nothing is lost."
)
_ADVICE = {
    3: "CUDA cannot be used in a process that was forked after it was started: use the "
    "start method 'spawn'.",
    4: "The interpreter, or the driver, is shutting down.",
    35: "Update the NVIDIA driver.",
    100: "There is no CUDA device; see `nvidia-smi` and CUDA_VISIBLE_DEVICES.",
    101: "There is no such device; see `nvidia-smi -L` and CUDA_VISIBLE_DEVICES.",
    201: _GONE,
    709: _GONE,
    803: "The NVIDIA driver and its kernel module are of different versions: restart "
    "the machine.",
    804: "The installed NVIDIA driver is too old for this device or container.",
    900: _CAPTURE,
    901: _CAPTURE,
    906: _CAPTURE,
}
_CODE = re.compile(r"\b[A-Z_]+ \((\d+)\)")  # in the core's text of an error
_DEFAULT = (
    "After such an error nothing on the device can be relied on: restart the process. "
    "CUDA_LAUNCH_BLOCKING=1 and compute-sanitizer find out whose kernel it was."
)
_INSTALL = (
    "To use a GPU, install the NVIDIA driver (from your distribution, or "
    "https://www.nvidia.com/drivers) and CuPy (pip install cupy-cuda13x); without one, "
    "use device='cpu'."
)


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an allocation was refused."""
    if isinstance(error, MemoryError):
        return True
    if not isinstance(error, _core.CudaError):
        return False
    code, text = error.args
    if code == _OPERATING_SYSTEM and "cuMemHost" in text:
        return True  # it does not lock as much
    return bool(code == OUT_OF_MEMORY)


def device_error(
    name: str, error: Exception | str, code: int | None = None
) -> DeviceError:
    """Return the error for a driver's refusal, with advice.

    Args:
        name: of the device.
        error: a `CudaError` of the core, or the text of one.
        code: the driver's, if `error` is a text.
    """
    text = str(error)
    if isinstance(error, _core.CudaError):
        code, text = error.args
    elif code is None and (found := _CODE.search(text)):
        code = int(found[1])
    if code == 0:  # no driver, or one that lacks a call
        return DeviceError(f"`device` is {name!r}, but {text}. {_INSTALL}")
    advice = _DEFAULT if code is None else _ADVICE.get(code, _DEFAULT)
    return DeviceError(f"`device` is {name!r}: {text}. {advice}")


def fork_error() -> ForkError:
    """Return the error for a buffer on a device that a forked child uses."""
    return ForkError(
        "this buffer belongs to the parent process: neither its threads nor its device "
        "are there in a forked child. Make a buffer in this process, started with the "
        "method 'spawn'."
    )
