"""`Backend`: the window of a buffer, wherever it lies, and draws from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from echobuf import _core
from echobuf.errors import CapacityError, DeviceError
from echobuf.out import RaggedOut

AnyCore = _core.Buffer | _core.DeviceBuffer
"""A native buffer."""


class Backend(Protocol):
    """A window in host memory or on a device, from which batches are drawn.

    A draw returns leaves, or the length of a batch; or else a code of the core, which
    `Termination` makes an exception of.
    """

    @property
    def core(self) -> AnyCore:
        """The native buffer."""

    @property
    def ragged_out(self) -> RaggedOut:
        """Takes apart leaves of `out`, where some are ragged."""

    @property
    def slots(self) -> int:
        """The number of slots of the ring that is put into."""

    @property
    def next(self) -> Callable[[float | None], list[Any] | int]:
        """The draw of a batch: given a timeout, it returns leaves, or a code."""

    def next_on(self, stream: Any, timeout: float | None) -> list[Any] | int:
        """Return the leaves of the next batch, valid on `stream`; or a code."""

    def next_into(self, leaves: list[Any], timeout: float | None, stream: Any) -> int:
        """Draw the next batch into the caller's arrays.

        Returns:
            The length of the batch, or minus a code.

        Raises:
            SpecError: names the leaf that does not fit.
        """

    def stream_of(self, leaves: list[Any], stream: Any) -> int:
        """Return the handle of `stream`; of None, that on which leaves are used.

        Raises:
            OptionError: it is none, is of another device, or the window is on the CPU.
        """

    def copier(self, leaves: list[Any], stream: Any) -> Callable[[list[Any]], int]:
        """Return a function that copies a finished batch into the caller's arrays.

        Raises:
            SpecError: names the leaf that does not fit.
        """

    def before_replay(self, stream: Any, timeout: float | None) -> int:
        """Prepare the next batch for a replay on `stream`; return 0, or a code."""

    def is_capturing(self, stream: Any) -> bool:
        """Return True if `stream`, or the current one, is being captured."""

    def why_lost(self) -> DeviceError | None:
        """Return the error that has ended the device, or None."""

    def out_of_memory(self) -> CapacityError:
        """Return the error for an allocation that was refused after all."""
