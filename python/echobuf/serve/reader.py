"""The reader of a loader that is attached to a server."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from echobuf import _core
from echobuf._engine.backends import HostBackend
from echobuf.errors import (
    ClosedError,
    DeviceError,
    EchobufError,
    OptionError,
    StateError,
    message,
)
from echobuf.loader.feeder import Feeder, stop_feeding
from echobuf.loader.logged_carry import AttachedCarried
from echobuf.loader.look_ahead import LookAhead
from echobuf.loader.readers import FeedRequest, Reader
from echobuf.loader.thread import UpstreamThread
from echobuf.loader.upstream import UpstreamStart
from echobuf.loader_buffer import LoaderBuffer
from echobuf.serve import client
from echobuf.serve.connection import Connection, broken_error, unopened_error
from echobuf.serve.ragged import check_leaves, check_payload, misfit_error

_SLICE_S = 0.25
_NONE = 2**62  # beyond all positions


@dataclass(frozen=True)
class ServerEpoch:
    """An epoch of a server."""

    number: int  # of the epoch at the server
    base: int  # position of its first example


class ServerReader(Reader):
    """A loader's reader whose examples, epochs and slots are those of a server.

    Iterating it waits for the server's next epoch, and yields that.

    Args:
        connection: to the server.
        begun: weak reference to a function, called when the loader asks for its first
            epoch.
    """

    is_attached = True

    def __init__(
        self, connection: Connection, begun: Callable[[], Callable[[], None] | None]
    ) -> None:
        self._connection = connection
        self._begun = begun
        self._next: int | None = None
        self._epoch: ServerEpoch | None = None
        self._reader: _core.RingReader | None = None
        self._buffer: LoaderBuffer | None = None
        self._held = HeldEpoch()

    # ---- iteration: epochs of the server

    def __iter__(self) -> Iterator[ServerEpoch]:
        yield self._await_epoch()

    def __len__(self) -> int:
        if self._connection.info.length is None:
            raise TypeError(
                f"the server {self._connection.name!r} does not know its length"
            )
        return self._connection.info.length

    def _await_epoch(self) -> ServerEpoch:
        slot = self._connection.slot
        if (begun := self._begun()) is not None:
            begun()
        self._skip_held()  # or the server might wait for this job
        while True:
            self._connection.check()
            code, epoch, base = slot.wait_epoch(self._next, _SLICE_S)
            if code == 0:
                self._held.epoch = epoch  # first: every epoch taken is fed or skipped
                self._next = epoch + 1
                return ServerEpoch(epoch, base)
            self._connection.raise_for(code)

    def _skip_held(self) -> None:
        """Skip an epoch that will not be fed, once nothing before it is drawn."""
        held = self._held.epoch
        if held is not None:
            if self._buffer is not None:
                self._buffer.reset(self._buffer.epoch)
            self._next = held + 1
            self._connection.slot.skip_to(held + 1)
            self._held.epoch = None  # last: if interrupted, it is done again

    def close(self) -> None:
        """Leave the server."""
        self._connection.close()

    def is_ready(self) -> bool:
        """Return True if the next epoch has begun, or never will.

        No epoch is begun ahead while one is held, which is skipped later.
        """
        if self._held.epoch is not None:
            return False
        code, _, _ = self._connection.slot.wait_epoch(self._next, 0.0)
        return code != _core.READ_TIMEOUT

    # ---- as of a reader with worker processes

    def first_item(self, start: UpstreamStart) -> Any:
        """Return an example of zeros, with the structure of the server's."""
        return self._connection.spec.example()

    def look(self, items: LookAhead, most: int) -> Iterator[Any]:
        """Yield an example whose ragged leaves, and no others, have another length."""
        yield self._connection.spec.example(1)

    def check(self, start: UpstreamStart) -> UpstreamStart:
        """Note the epoch that is begun."""
        if start.items is not None:
            self._epoch = start.first
        return start

    def describe_wait(self) -> str:
        """Return the server's state."""
        name = self._connection.name
        try:
            status = client.status(name)
        except EchobufError as error:
            return f"the server {name!r} gives no status ({message(error)})"
        state = "is in" if status.running else "waits to begin"
        slowest = max(status.jobs, key=lambda job: job.lag, default=None)
        behind = (
            f"; the job {slowest.job!r} is {slowest.lag:,} behind"
            if slowest is not None and slowest.lag
            else ""
        )
        return (
            f"the server {name!r} {state} epoch {status.epoch}, at "
            f"{status.rate:.3g} fresh examples/s{behind}"
        )

    def make_buffer(
        self, spec: Any, *, carries: bool = False, **arguments: Any
    ) -> LoaderBuffer:
        """Make a buffer over the server's slots."""
        assert self._epoch is not None
        most = self._connection.info.window
        if arguments["window"] > most:
            raise OptionError(
                f"`window` is {arguments['window']:,}, and the server "
                f"{self._connection.name!r} is for windows of {most:,} at most; make "
                "it smaller, or `window` of the server larger."
            )
        check_leaves(spec, self._connection)
        on_device = arguments["device"] != "cpu"
        if on_device and self._connection.info.spilled:
            raise OptionError(
                f"`device` is {arguments['device']!r}, and the server keeps examples "
                "on a disk, from which a device cannot read: leave `spill` of the "
                "server out."
            )
        try:
            borrowed = self._connection.slot.borrow(
                self._connection.memory_fd, self._epoch.base, on_device
            )
        except (RuntimeError, MemoryError) as error:
            raise unopened_error(self._connection.name, error) from error
        self._buffer = LoaderBuffer(
            spec, borrowed=borrowed, carries=carries, **arguments
        )
        self._buffer.termination.cut_off = self._connection.cut_off_error
        self._connection.buffer = weakref.ref(self._buffer)
        self._reader = self._make_reader(self._buffer, arguments["window"])
        return self._buffer

    def _make_reader(self, buffer: LoaderBuffer, window: int) -> _core.RingReader:
        """Return the native reader of a buffer, if the server has room for that."""
        backend, connection = buffer.backend, self._connection
        slots = connection.slot.slots()
        if isinstance(backend, HostBackend) and backend.slots > slots:
            raise OptionError(
                f"`window` is {window}, which needs {backend.slots} slots, and the "
                f"server {connection.name!r} has {slots}; make it smaller, or `window` "
                "of the server larger."
            )
        check_payload(buffer, connection)
        return _core.RingReader(backend.core, connection.slot)

    def feed(self, buffer: LoaderBuffer, request: FeedRequest) -> ServerFeeder:
        """Start a thread that feeds the epoch noted last."""
        epoch: ServerEpoch = request.start.first
        if request.needed > 0:
            raise StateError(
                "`state` was taken in the middle of an epoch, and what a server has "
                "served does not come again; take states between epochs, or give the "
                "loader an upstream of its own."
            )
        reader = self._reader
        assert reader is not None
        # The native reader is for one thread, and Ctrl-C may have left another one.
        for feeder in stop_feeding(buffer):
            feeder.join()
        if buffer.is_draining():  # the epoch before is still served: this one is ahead
            self._connection.slot.skip_to(epoch.number - 1)
        else:
            self._connection.slot.skip_to(epoch.number)
            self._connection.note_needed(epoch.base)
            gap = reader.gap(epoch.base)
            if gap:
                buffer.pass_over(gap)
        reader.begin(epoch.base)
        feeder = ServerFeeder(
            buffer, reader, self._connection, epoch.number, self._held, request.thread
        )
        log = self._connection.log
        if request.carrier is not None and log is not None:
            feeder.carried = AttachedCarried(
                request.carrier,
                log,
                epoch.base,
                self._connection.seat,
                self._connection.check_held,
            )
        if not feeder.is_stopped():
            self._held.epoch = None
        return feeder


@dataclass
class HeldEpoch:
    """A mutable cell: an epoch that the server keeps for this job, and is not read."""

    # Number at the server, or None. The epoch was begun and is not fed yet, or was
    # given up while the one before it was drawn from the server's slots.
    epoch: int | None = None


class ServerFeeder(Feeder):
    """A thread that feeds one epoch from a server; otherwise as `Feeder`."""

    def __init__(
        self,
        buffer: LoaderBuffer,
        reader: _core.RingReader,
        connection: Connection,
        epoch: int,
        held: HeldEpoch,
        thread: UpstreamThread,
    ) -> None:
        self._reader = reader
        self._connection = connection
        self._epoch = epoch
        self._held = held
        self._buffer = buffer
        super().__init__(buffer, thread, UpstreamStart(), reader.term())

    def stop(self) -> None:
        """Ask the thread to end, and do not wait for it.

        An epoch that is begun ahead is not skipped yet: the one before it may still be
        drawn from the server's slots.
        """
        if self._process != os.getpid():  # a fork: the seat is the parent's
            return
        is_first = not self.stopped.is_set()
        self.stopped.set()
        if not self._ended:  # harmless if the thread ends meanwhile
            # Not of an earlier term: a thread may be stopped once more, much later.
            is_open = self._buffer.term() == self._term
            is_ahead = is_open and self._buffer.is_draining()
            if is_ahead:
                self._held.epoch = self._epoch
            # In this order: nothing may be served from slots that are given up.
            self._buffer.abandon(self._term)
            if not is_ahead:
                if is_first:  # else another epoch may have begun
                    self._connection.note_needed(_NONE)
                self._connection.slot.skip_to(self._epoch + 1)  # also its later part

    def is_stopped(self) -> bool:
        """Return whether the epoch was given up."""
        return self.stopped.is_set()

    def _run(self, start: UpstreamStart) -> None:
        try:
            code = _core.READ_TIMEOUT
            while code == _core.READ_TIMEOUT and not self.stopped.is_set():
                self._connection.raise_for(code)
                code = self._reader.read(self._term, self._epoch, _SLICE_S)
            if code == 0:
                self._ended = True
                self._buffer.close()
            elif code == _core.READ_MISFIT:
                try:  # first: the example is not to be served
                    self._buffer.fail(misfit_error(self._buffer, self._reader))
                    self.stop()  # other jobs do not wait for this one
                finally:
                    self._reader.settle()
            elif code != _core.READ_CLOSED and not self.stopped.is_set():
                self._connection.raise_for(code)
        except BaseException as error:  # else the job would wait for ever
            if not isinstance(error, EchobufError):
                error = broken_error(self._connection.name, error)
            if not self.stopped.is_set():
                # A closed buffer, or one without its device, has its own error.
                with contextlib.suppress(ClosedError, DeviceError):
                    self._buffer.fail(error)
