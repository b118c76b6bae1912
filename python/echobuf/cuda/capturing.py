"""Calls that break the captures of other threads, and how to make them."""

from __future__ import annotations

from types import TracebackType

from echobuf import _core

_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


class relaxed:  # noqa: N801 - a context manager without a generator, for each batch
    """Inside, this thread may allocate and load modules while a graph is captured.

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
