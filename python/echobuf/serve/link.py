"""A job's connection to its server, which may come back after it has gone."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import uuid
import weakref

from echobuf import _core
from echobuf.buffer import EchoBuffer
from echobuf.describe_error import describe
from echobuf.errors import (
    CapacityError,
    ClosedError,
    DeviceError,
    EchobufError,
    OptionError,
    SpecError,
    UpstreamError,
)
from echobuf.limits import enough
from echobuf.serve import address, calls, wire
from echobuf.serve.sample import Sample
from echobuf.threads import Signal

_TRY_S = 0.1


class Link:
    """Attached from construction on; dropping it leaves the server.

    Args:
        name: of the server.
        job: a name that no other job of it has; None for any.
        timeout: seconds to wait for the server to be there.
        reconnect: seconds to wait for it to come back.

    Attributes:
        place: at the server.
        sample: what examples look like.
        length: fresh examples an epoch, where that is known.
        window: the largest that a job may have.
        spilled: whether the slots are on a disk.
        buffer: that draws from them; None before there is one.

    Raises:
        OptionError: there is no such server, or it refuses the job.
        SpecError: what it serves cannot be read here.
        CapacityError: this process cannot open what the server shares.
    """

    def __init__(
        self, name: str, job: str | None, timeout: float, reconnect: float
    ) -> None:
        self.name = address.check_name(name)
        self.job = job or f"process-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.buffer: weakref.ref[EchoBuffer] | None = None
        connection, answer, files = calls.attach(self.name, self.job, timeout)
        self._files = _Files(files)
        try:
            seat, holder = answer["seat"]
            self.place = self._take_place(seat, holder, answer["lease_s"])
            try:
                self.sample: Sample = wire.unpack(answer["sample"])
                self._spec = self.sample.describe()
            except Exception as error:
                raise SpecError(
                    f"what {name!r} serves cannot be read here: {describe(error)}. The "
                    "classes in its examples must be importable in this job, too."
                ) from error
        except BaseException:
            connection.close()
            raise
        self.length: int | None = answer["length"]
        self.window: int = answer["window"]
        self.spilled: bool = answer["spilled"]
        # What the thread has, which must not hold this.
        self._shared = _Shared(
            self.name,
            self.job,
            (seat, holder),
            self.place,
            self._files,
            self._spec,
            reconnect,
            connection,
        )
        keeping = threading.Thread(
            target=self._shared.keep, name="echobuf-job", daemon=True
        )
        try:
            with enough("a job of a server", "attach in a process of its own"):
                keeping.start()
        except BaseException:
            connection.close()
            raise
        weakref.finalize(self, self._shared.close)

    def _take_place(self, seat: int, holder: int, lease_s: float) -> _core.Place:
        try:
            return _core.Place(self._files.both[0], seat, holder, lease_s)
        except (RuntimeError, MemoryError, ValueError, TypeError) as error:
            raise unopened(self.name, error) from error

    @property
    def memory(self) -> int:
        """Descriptor of the slots."""
        return self._files.both[1]

    def check(self) -> None:
        """Raises `UpstreamError` if the server is gone and has not come back."""
        if self._shared.is_closed():
            raise left()
        if self._shared.error is not None:
            raise UpstreamError(*self._shared.error.args)

    def raise_for(self, code: int) -> None:
        """Raises what a code of the core means; nothing where it is to wait."""
        self.check()
        if code == _core.FOLLOWED_DROPPED:
            raise self.why_cut_off()
        if code == _core.FOLLOWED_OVER:
            raise UpstreamError(
                f"the server {self.name!r} has served all of its epochs."
            )
        if code == _core.FOLLOWED_FAILED:
            raise UpstreamError(
                f"upstream of the server {self.name!r} failed: {self.place.why()}"
            )

    def why_cut_off(self) -> UpstreamError:
        """Why nothing more can be read from the server's slots."""
        return left() if self._shared.is_closed() else dropped(self.name)

    def close(self) -> None:
        """Leaves the server: nothing more can be drawn."""
        buffer = None if self.buffer is None else self.buffer()
        if buffer is not None:
            # One that was left, or whose device is gone, says so itself.
            with contextlib.suppress(ClosedError, DeviceError):
                buffer.fail(left())
        self._shared.close()


class _Files:
    """Descriptors, closed when nobody has them any more."""

    def __init__(self, files: list[int]) -> None:
        self.both = files[0], files[1]
        for file in self.both:
            weakref.finalize(self, os.close, file).atexit = False


class _Shared:
    """A connection that is kept up."""

    def __init__(
        self,
        name: str,
        job: str,
        seat: tuple[int, int],
        place: _core.Place,
        files: _Files,
        spec: str,
        reconnect: float,
        connection: socket.socket,
    ) -> None:
        self._name, self._job, self._seat = name, job, seat
        self._place, self._files, self._spec = place, files, spec
        self._reconnect = reconnect
        self._connection = connection
        self._closed = Signal()
        self._process = os.getpid()
        self.error: EchobufError | None = None

    def keep(self) -> None:
        try:
            while self._stay():
                pass
        except EchobufError as error:
            self.error = error
        except BaseException as error:  # nothing may leave the job waiting for ever
            self.error = broken(self._name, error)
            self.error.__cause__ = error

    def _stay(self) -> bool:
        """Until the connection is gone; whether there is another."""
        with contextlib.suppress(OSError):
            while self._connection.recv(1):
                pass
        self._connection.close()
        end = time.monotonic() + self._reconnect
        while not self._closed.is_set():
            if not self._place.is_held():
                raise dropped(self._name)
            if self._place.why() or self._is_over():
                return False  # it said good-bye
            try:
                self._connection = self._resume()
            except OptionError:  # it refuses this job
                raise
            except (OSError, ValueError):
                pass
            else:
                if self._closed.is_set():
                    self._connection.close()
                    return False
                return True
            if time.monotonic() > end:
                raise OptionError(
                    f"the server {self._name!r} has gone, and did not come back within "
                    f"{self._reconnect:g} s."
                )
            self._closed.wait(_TRY_S)
        return False

    def _is_over(self) -> bool:
        return self._place.wait_epoch(2**62, 0.0)[0] == _core.FOLLOWED_OVER

    def _resume(self) -> socket.socket:
        return calls.resume(
            self._name,
            {
                "job": self._job,
                "seat": self._seat,
                "session": self._place.session().hex(),
                "spec": self._spec,
            },
            self._files.both,
        )

    def is_closed(self) -> bool:
        return self._closed.is_set()

    def close(self) -> None:
        if os.getpid() != self._process or self._closed.is_set():
            return
        self._closed.set()
        self._place.fall_silent()  # there may be no server now to be told
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


def left() -> UpstreamError:
    """The error for a job that has gone by itself."""
    return UpstreamError("the server was left: `close()` was called.")


def broken(name: str, error: BaseException) -> UpstreamError:
    """The error for a job whose own thread has failed."""
    return UpstreamError(
        f"the connection to the server {name!r} failed: {describe(error)}"
    )


def unopened(name: str, error: BaseException) -> CapacityError:
    """The error for memory of a server that cannot be opened here."""
    return CapacityError(
        f"what the server {name!r} shares cannot be opened here: {describe(error)}. If "
        "descriptors, threads or memory have run out, close some, or raise the limit "
        "(`ulimit -n`, `ulimit -u`)."
    )


def dropped(name: str) -> UpstreamError:
    """The error for a job that the server has given up."""
    return UpstreamError(
        f"the server {name!r} dropped this job, which had given no sign of life for "
        "longer than its lease; raise `lease` of the server, or attach anew."
    )
