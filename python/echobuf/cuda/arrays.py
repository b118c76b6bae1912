"""Arrays on a device that batches are drawn into: the protocol, and a common base."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

from echobuf.cuda.output import DeviceOut
from echobuf.tree import Spec


class Arrays(Protocol):
    """Arrays of batches: new ones, and the caller's."""

    def stream(self, stream: Any) -> int:
        """Return the handle of `stream`; if it is None, of the caller's current one."""

    def empty(self, stream: int) -> tuple[list[Any], list[int]]:
        """Return new arrays for one batch, and their addresses.

        Args:
            stream: the one that uses them first.
        """

    def out(self, leaves: list[Any], stream: Any) -> tuple[list[Any], list[int], int]:
        """Return arrays to draw into: the caller's, or others that are copied to them.

        Returns:
            The arrays, which `finish` takes; their addresses; the handle of the stream
            to draw on.

        Raises:
            SpecError: names the leaf that does not fit.
        """

    def find(self, leaves: list[Any], stream: Any) -> int:
        """Check the caller's arrays; return the handle of the stream to copy on.

        Raises:
            SpecError: names the leaf that does not fit.
        """

    def finish(
        self, leaves: list[Any], drawn: list[Any], count: int, stream: int
    ) -> None:
        """Bring a batch that was drawn on `stream` to the caller's arrays.

        Args:
            leaves: the caller's, or those from `empty`.
            drawn: the arrays drawn into: `leaves` themselves, or others.
            count: the number of rows of the batch.
            stream: the stream of the draw.
        """


def handle_of(stream: Any, ordinal: int) -> int:
    """Return the handle of a stream of CuPy, of torch, or of `__cuda_stream__`.

    Args:
        stream: has `ptr` (CuPy) or `cuda_stream` (torch), speaks the protocol
            `__cuda_stream__`, or is the handle itself, as an int.
        ordinal: the device that it must be of, if it has a device.

    Raises:
        OptionError: `stream` is none of these, or is of another device.
    """
    from echobuf.errors import OptionError

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


class DeviceArrays(ABC):
    """The base of `Arrays` that finds the caller's arrays.

    Args:
        ordinal: the device that they are on.
        spec: of one example, or of one whole batch.
        lead: extents before the shape that the spec says.
    """

    def __init__(self, ordinal: int, spec: Spec, lead: tuple[int, ...]) -> None:
        self._ordinal = ordinal
        self._out = DeviceOut(ordinal, spec, lead)

    @abstractmethod
    def stream(self, stream: Any) -> int:
        """Return the handle of `stream`, or of the caller's current one."""

    @abstractmethod
    def empty(self, stream: int) -> tuple[list[Any], list[int]]:
        """Return new arrays for one batch, and their addresses."""

    @abstractmethod
    def copy(
        self, leaves: list[Any], drawn: list[Any], count: int, stream: int
    ) -> None:
        """Copy rows to the caller's leaves, in the order of the stream."""

    def stream_of(self, leaves: list[Any]) -> int:
        """Return the handle of the stream that the caller uses these leaves on."""
        return self.stream(None)

    def out(self, leaves: list[Any], stream: Any) -> tuple[list[Any], list[int], int]:
        """Return the caller's arrays if they are contiguous, else new ones."""
        addresses, contiguous = self._out.find(leaves)
        handle = self.stream_of(leaves) if stream is None else self.stream(stream)
        if contiguous:
            return leaves, addresses, handle
        return *self.empty(handle), handle

    def find(self, leaves: list[Any], stream: Any) -> int:
        """Check the caller's arrays; return the handle of the stream to copy on."""
        self._out.find(leaves)
        return self.stream_of(leaves) if stream is None else self.stream(stream)

    def finish(
        self, leaves: list[Any], drawn: list[Any], count: int, stream: int
    ) -> None:
        """Copy what was drawn into other arrays; nothing waits for the copy."""
        if drawn is leaves:
            return
        targets, sources = list(leaves), list(drawn)
        for index, leaf in enumerate(leaves):
            if not self._out.is_aligned(index, leaf):  # no kernel can store items there
                targets[index] = self._out.bytes_of(index, leaf)
                sources[index] = self._out.bytes_of(index, drawn[index])
        self.copy(targets, sources, count, stream)
