"""What arrays on a device have in common, whoever makes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from echobuf.cuda.out import DeviceOut
from echobuf.tree import Spec


class OnDevice(ABC):
    """Finds the caller's arrays; see `echobuf.cuda.arrays.Arrays`.

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
        """The handle of `stream`, or of the caller's current one."""

    @abstractmethod
    def empty(self, stream: int) -> tuple[list[Any], list[int]]:
        """New arrays for one batch, and their addresses."""

    @abstractmethod
    def copy(
        self, leaves: list[Any], drawn: list[Any], count: int, stream: int
    ) -> None:
        """Copies rows to the caller's leaves, in the order of the stream."""

    def stream_of(self, leaves: list[Any]) -> int:
        """The handle of the stream that the caller uses these leaves on."""
        return self.stream(None)

    def out(self, leaves: list[Any], stream: Any) -> tuple[list[Any], list[int], int]:
        """Contiguous arrays are drawn into; others by way of a copy on the device."""
        addresses, contiguous = self._out.find(leaves)
        handle = self.stream_of(leaves) if stream is None else self.stream(stream)
        if contiguous:
            return leaves, addresses, handle
        return *self.empty(handle), handle

    def find(self, leaves: list[Any], stream: Any) -> int:
        """Checks the caller's arrays: the handle of the stream to copy to them on."""
        self._out.find(leaves)
        return self.stream_of(leaves) if stream is None else self.stream(stream)

    def finish(
        self, leaves: list[Any], drawn: list[Any], count: int, stream: int
    ) -> None:
        """Copies what was drawn elsewhere; nothing waits for it."""
        if drawn is leaves:
            return
        targets, sources = list(leaves), list(drawn)
        for index, leaf in enumerate(leaves):
            if not self._out.is_aligned(index, leaf):  # no kernel can store items there
                targets[index] = self._out.bytes_of(index, leaf)
                sources[index] = self._out.bytes_of(index, drawn[index])
        self.copy(targets, sources, count, stream)
