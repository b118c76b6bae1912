"""Opening devices: once each, with CuPy or whatever takes its place."""

from __future__ import annotations

import os
import threading
from typing import Protocol

from echobuf.cuda.device import Device
from echobuf.errors import DeviceError


class Opener(Protocol):
    """Something that opens devices by their number; None is the current one."""

    def __call__(self, ordinal: int | None) -> Device:
        """The device, which may have been opened before."""


_opened: dict[int, Device] = {}
_opening = threading.Lock()
_opener: Opener | None = None  # in place of CuPy's


def _renew_lock() -> None:
    global _opening  # noqa: PLW0603
    _opening = threading.Lock()  # a thread that had it is not there in a forked child


os.register_at_fork(after_in_child=_renew_lock)


def set_opener(opener: Opener | None) -> None:
    """Devices are opened by `opener` from now on; None: with CuPy."""
    global _opener  # noqa: PLW0603
    _opener = opener


def is_simulated() -> bool:
    """Whether devices are others than CUDA's."""
    return _opener is not None


def open_device(name: str) -> Device:
    """The device called "cuda" or "cuda:N".

    Raises:
        DeviceError: it cannot be used; says what to do.
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
