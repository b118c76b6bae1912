"""A job's connection to its server, which may come back after it has gone."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import uuid
import weakref
from dataclasses import dataclass

from echobuf import _core
from echobuf.errors import (
    CapacityError,
    ClosedError,
    DeviceError,
    EchobufError,
    OptionError,
    SpecError,
    UpstreamError,
    describe,
)
from echobuf.loader_buffer import LoaderBuffer
from echobuf.resources import Signal, enough
from echobuf.serve import address, client, protocol
from echobuf.serve.protocol import ExampleSpec
from echobuf.workers.object_log import ObjectLog

_TRY_S = 0.1


class Connection:
    """A job's connection to a server; dropping it detaches the job.

    The constructor attaches. A thread reconnects when the server has been replaced.

    Attributes:
        seat: the number of the job's seat.
        log: what examples carry; None where they carry nothing.
        slot: the seat: heartbeats, epochs, and slots to borrow.
        spec: structure of an example.
        info: the server's properties.
        buffer: weak reference to the buffer over the slots; None before it is made.
    """

    def __init__(
        self, name: str, job: str | None, timeout: float, reconnect: float
    ) -> None:
        self.name = address.check_name(name)
        self.job = job or f"process-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.buffer: weakref.ref[LoaderBuffer] | None = None
        attached = client.attach(self.name, self.job, timeout)
        connection, seat, self.info, files = attached
        self._files = _SharedFiles(files)
        self.log = self._files.log
        try:
            place, holder = seat
            self.seat = place
            self.slot = self._take_slot(place, holder)
            try:
                self.spec: ExampleSpec = protocol.unpack(self.info.example)
                self.spec.describe()
            except Exception as error:
                raise SpecError(
                    f"what {name!r} serves cannot be read here: {describe(error)}. The "
                    "classes in its examples must be importable in this job, too."
                ) from error
        except BaseException:
            connection.close()
            raise
        # The part that the thread holds, which must not hold this object.
        self._kept = _KeptConnection(
            self.name,
            self.job,
            (place, holder),
            self.slot,
            self._files,
            self.info.spec,
            reconnect,
            connection,
        )
        keeping = threading.Thread(
            target=self._kept.keep, name="echobuf-job", daemon=True
        )
        try:
            with enough("a job of a server", "attach in a process of its own"):
                keeping.start()
        except BaseException:
            connection.close()
            raise
        weakref.finalize(self, self._kept.close)

    def _take_slot(self, seat: int, holder: int) -> _core.ClientSlot:
        header, lease_s = self._files.all[0], self.info.lease_s
        try:
            return _core.ClientSlot(header, seat, holder, lease_s)
        except (RuntimeError, MemoryError, ValueError, TypeError) as error:
            raise unopened_error(self.name, error) from error

    @property
    def memory_fd(self) -> int:
        """File descriptor of the slots."""
        return self._files.all[1]

    def note_needed(self, position: int) -> None:
        """Note the first example whose objects this job needs."""
        if self.log is not None:
            self.log.note_needed(self.seat, position)

    def check(self) -> None:
        """Raise `UpstreamError` if the server has gone and not come back."""
        if self._kept.is_closed():
            raise left_error()
        if self._kept.error is not None:
            raise UpstreamError(*self._kept.error.args)

    def raise_for(self, code: int) -> None:
        """Raise the error of a native code; return if the code means to wait."""
        self.check()
        if code == _core.READ_DROPPED:
            raise self.cut_off_error()
        if code == _core.READ_OVER:
            raise UpstreamError(
                f"the server {self.name!r} has served all of its epochs."
            )
        if code == _core.READ_FAILED:
            raise UpstreamError(
                f"upstream of the server {self.name!r} failed: {self.slot.reason()}"
            )

    def check_held(self) -> None:
        """Raise `UpstreamError` if the server keeps nothing more for this job."""
        if not self.slot.is_held():
            raise self.cut_off_error()

    def cut_off_error(self) -> UpstreamError:
        """Return the error for slots that the server keeps no longer for this job."""
        return left_error() if self._kept.is_closed() else dropped_error(self.name)

    def close(self) -> None:
        """Detach from the server: nothing more can be drawn."""
        buffer = None if self.buffer is None else self.buffer()
        if buffer is not None:
            # A closed buffer, or one without its device, has its own error.
            with contextlib.suppress(ClosedError, DeviceError):
                buffer.fail(left_error())
        self._kept.close()


class _SharedFiles:
    """The descriptors that a server shares, closed with the last reference."""

    def __init__(self, files: list[int]) -> None:
        self.all = tuple(files)
        # What examples carry, if they do
        self.log = ObjectLog(files[2]) if len(files) > 2 else None
        for file in self.all[:2]:
            weakref.finalize(self, os.close, file).atexit = False


@dataclass(eq=False)
class _KeptConnection:
    """The socket of a connection, reconnected on a thread when the server returns."""

    name: str
    job: str
    seat: tuple[int, int]
    slot: _core.ClientSlot
    files: _SharedFiles
    description: str
    reconnect: float
    connection: socket.socket
    error: EchobufError | None = None

    def __post_init__(self) -> None:
        self._closed = Signal()
        self._process = os.getpid()

    def keep(self) -> None:
        try:
            while self._wait_for_disconnect():
                pass
        except EchobufError as error:
            self.error = error
        except BaseException as error:  # else the job would wait for ever
            self.error = broken_error(self.name, error)
            self.error.__cause__ = error

    def _wait_for_disconnect(self) -> bool:
        """Wait until the socket is closed; return True once there is another."""
        with contextlib.suppress(OSError):
            while self.connection.recv(1):
                pass
        self.connection.close()
        end = time.monotonic() + self.reconnect
        while not self._closed.is_set():
            if not self.slot.is_held():
                raise dropped_error(self.name)
            if self.slot.reason() or self._is_over():
                return False  # the server has ended
            try:
                self.connection = self._resume()
            except OptionError:  # the server refuses this job
                raise
            except (OSError, ValueError):
                pass
            else:
                if self._closed.is_set():
                    self.connection.close()
                    return False
                return True
            if time.monotonic() > end:
                raise OptionError(
                    f"the server {self.name!r} has gone, and did not come back within "
                    f"{self.reconnect:g} s."
                )
            self._closed.wait(_TRY_S)
        return False

    def _is_over(self) -> bool:
        return self.slot.wait_epoch(2**62, 0.0)[0] == _core.READ_OVER

    def _resume(self) -> socket.socket:
        return client.resume(
            self.name,
            {
                "job": self.job,
                "seat": self.seat,
                "session": self.slot.session().hex(),
                "spec": self.description,
            },
            self.files.all,
        )

    def is_closed(self) -> bool:
        return self._closed.is_set()

    def close(self) -> None:
        if os.getpid() != self._process or self._closed.is_set():
            return
        self._closed.set()
        self.slot.detach()  # there may be no server now that would notice
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def left_error() -> UpstreamError:
    """Return the error for a job that was closed."""
    return UpstreamError("the server was left: `close()` was called.")


def broken_error(name: str, error: BaseException) -> UpstreamError:
    """Return the error for a job whose own thread has failed."""
    return UpstreamError(
        f"the connection to the server {name!r} failed: {describe(error)}"
    )


def unopened_error(name: str, error: BaseException) -> CapacityError:
    """Return the error for memory of a server that cannot be mapped here."""
    return CapacityError(
        f"what the server {name!r} shares cannot be opened here: {describe(error)}. If "
        "descriptors, threads or memory have run out, close some, or raise the limit "
        "(`ulimit -n`, `ulimit -u`)."
    )


def dropped_error(name: str) -> UpstreamError:
    """Return the error for a job that the server has dropped."""
    return UpstreamError(
        f"the server {name!r} dropped this job, which had given no sign of life for "
        "longer than its lease; raise `lease` of the server, or attach anew."
    )
