"""The thread that iterates upstream and puts what it yields."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from echobuf import _core
from echobuf.buffer import EchoBuffer
from echobuf.errors import ClosedError, DeviceError, SpecError, UpstreamError
from echobuf.loader.snapshots import Snapshots
from echobuf.loader.source import length_of, skip

_END = object()

_AT_EXIT_S = 0.2

_feeders: weakref.WeakSet[Feeder] = weakref.WeakSet()


class BadItemError(UpstreamError, SpecError):
    """Upstream yielded something that does not fit the spec of its first item."""


class Feeder:
    """Feeds one epoch of upstream into a buffer, on a thread of its own.

    The thread holds neither the loader nor the loop that draws, so dropping those ends
    it: at once while it waits for room, else when upstream's current call returns. It
    is a daemon, and the exit of the interpreter waits a moment for it, no longer.

    Args:
        buffer: open, for this epoch.
        items: what is left of upstream.
        first: its first item, taken already.
        batched: items hold examples stacked on axis 0.
        read: brings an item into the form that the buffer takes.
        skipped: examples at the start that a resumed buffer does not need.
        snapshots: take upstream's state between items; None if it has none.
    """

    def __init__(
        self,
        buffer: EchoBuffer,
        items: Iterator[Any],
        first: Any,
        *,
        batched: bool,
        read: Callable[[Any], Any],
        skipped: int,
        snapshots: Snapshots | None,
    ) -> None:
        self._buffer = buffer
        self._put = buffer.put_batch if batched else buffer.put
        self._batched = batched
        self._read = read
        self._count = 0  # items that upstream has yielded
        self._skipped = skipped
        self._snapshots = snapshots
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(items, first), name="echobuf-feeder", daemon=True
        )
        # The thread's arguments are the only references, so that what upstream holds
        # goes when the thread ends.
        del items, first
        self._ended = False
        _feeders.add(self)
        self._thread.start()

    def stop(self) -> None:
        """Tells the thread to end, and does not wait for it."""
        self._stopped.set()
        # A thread that has ended has nothing to be woken from, and the buffer may be
        # in another epoch by now.
        if self._thread.is_alive() and not self._ended:
            self._buffer._abandon()

    def join(self, timeout: float | None = None) -> bool:
        """Waits until the thread has ended; Ctrl-C gets through.

        Args:
            timeout: seconds to wait at most.

        Returns:
            Whether it has.
        """
        if self._thread is threading.current_thread():
            return False
        if timeout is not None:
            self._thread.join(timeout)
            return not self._thread.is_alive()
        while self._thread.is_alive():
            self._thread.join(0.1)
        return True

    def end(self) -> None:
        """Ends the thread; waits until upstream's current call returns."""
        self.stop()
        self.join()

    def _join_until(self, deadline: float) -> None:
        self._thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self, items: Iterator[Any], item: Any) -> None:
        _core.this_thread_runs_upstream()
        try:
            while item is not _END and not self._stopped.is_set():
                self._feed(item)
                item = next(items, _END)
            if item is _END:
                self._ended = True
                if self._snapshots is not None:
                    self._snapshots.ended()
                self._buffer.close()
        except BaseException as error:
            # The error keeps this frame; what upstream holds must go all the same.
            del items, item
            # A put that the end of the epoch cut off is no failure of upstream's.
            if not (isinstance(error, ClosedError) and self._stopped.is_set()):
                # A buffer whose device is gone says so itself to who draws.
                with contextlib.suppress(DeviceError):
                    self._buffer.fail(error)

    def _feed(self, item: Any) -> None:
        self._count += 1
        try:
            item = self._read(item)
            if self._snapshots is not None:  # before what it yielded is served
                self._snapshots.passed(length_of(item) if self._batched else 1)
            if self._skipped:
                item = self._skip(item)
                if item is None:
                    return
            self._put(item)
        except SpecError as error:
            whole = self._batched or self._buffer._options.ragged
            hint = "" if whole else " If upstream yields batches: batched=True."
            raise BadItemError(
                f"item {self._count - 1} of upstream does not fit the first one: "
                f"{error}{hint}"
            ) from error

    def _skip(self, item: Any) -> Any:
        if not self._batched:
            self._skipped -= 1
            return None
        length = length_of(item)
        cut = min(length, self._skipped)
        self._skipped -= cut
        return skip(item, cut) if cut < length else None


def _stop_all() -> None:
    """Ends the threads, if upstream's current calls return soon.

    One that native code of upstream's (torch's) is still in when the interpreter goes
    is ended by Python where it next asks for the GIL.
    """
    feeders = list(_feeders)
    for feeder in feeders:
        feeder.stop()
    deadline = time.monotonic() + _AT_EXIT_S
    for feeder in feeders:
        feeder._join_until(deadline)


atexit.register(_stop_all)
