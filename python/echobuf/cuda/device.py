"""CUDA devices, and how they are opened: with CuPy, or by the simulated driver."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from echobuf import _core
from echobuf.cuda.arrays import Arrays
from echobuf.cuda.codegen import StageSource
from echobuf.errors import DeviceError
from echobuf.tree import Spec

LIBRARY = "libcuda.so.1"


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


def _renew_lock() -> None:
    global _opening  # noqa: PLW0603
    _opening = threading.Lock()  # a forked child lacks the thread that held it


os.register_at_fork(after_in_child=_renew_lock)


def set_opener(opener: Opener | None) -> None:
    """Open devices with `opener` from now on; None: with CuPy."""
    global _opener  # noqa: PLW0603
    _opener = opener


def is_simulated() -> bool:
    """Return whether devices are opened by another opener than CuPy's."""
    return _opener is not None


def open_device(name: str) -> Device:
    """Return the device called "cuda" or "cuda:N".

    Raises:
        DeviceError: it cannot be used; the message says how to fix that.
    """
    ordinal = int(name[5:]) if ":" in name else None
    if _opener is not None:
        return _opener(ordinal)
    return _open_with_cupy(ordinal)


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
