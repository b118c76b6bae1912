"""The loop of a server that accepts jobs, old ones too, and answers their requests."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from echobuf import _core
from echobuf.errors import CapacityError, EchobufError, OptionError, describe
from echobuf.resources import Signal, track
from echobuf.serve import address, protocol
from echobuf.serve.protocol import Job, Message, ServerInfo, Status, close_files
from echobuf.workers.object_log import ObjectLog

_RATE_S = 0.5
_REQUEST_TIMEOUT_S = 5.0  # to receive a request, and to send an answer
_WAIT_MESSAGE_S = 1.0  # between messages to jobs that wait for the first example
_ACCEPT_RETRY_S = 0.1  # after a connection could not be accepted


class ServerLoop:
    """The socket of a server, and a thread for each job that is connected."""

    def __init__(self, base: Path, adopt: Callable[[Message, list[int]], None]) -> None:
        self._base, self._name = base, base.name
        self._adopt = adopt
        self._marker = address.JobMarker(base)
        self._open = Signal()  # there is a ring
        self._closed = self._had_jobs = False
        self._ended = Signal()  # with that
        self._has_discarded = False
        self._lock = threading.Lock()
        self._jobs: dict[tuple[int, int], tuple[str, int]] = {}  # seat: job, process
        self._connections: set[socket.socket] = set()
        self._socket = address.listen(base)
        self._thread = threading.Thread(
            target=self._accept, name="echobuf-serve-loop", daemon=True
        )
        try:
            self._thread.start()
        except BaseException:
            self._ended.set()  # where it was interrupted, the thread may run
            address.close(base, self._socket)
            raise

    def open(
        self, ring: _core.SharedRing, info: ServerInfo, log: ObjectLog | None
    ) -> None:
        """Let jobs attach to this ring, and to the log of what examples carry."""
        self.ring, self._info, self._log = ring, info, log
        self._open.set()

    def close(self) -> bool:
        """Take no further job; return True if there were jobs at the first call."""
        with self._lock:
            if not self._closed:  # afterwards the ring may be released
                self._had_jobs = self._any_jobs()
                self._closed = True
            connections = list(self._connections)
        self._ended.set()
        address.close(self._base, self._socket)
        self._open.set()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        return self._had_jobs

    def _any_jobs(self) -> bool:
        """Return True if a job has a seat, even one that has yet to reconnect."""
        return self._open.is_set() and bool(self.ring.jobs())

    def discard_jobs(self) -> None:
        """Note that no other server will follow for these jobs."""
        with self._lock:
            self._has_discarded = True
            self._marker.clear()

    # ---- on threads

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed; or out of descriptors, which may pass
                self._ended.wait(_ACCEPT_RETRY_S)
                continue
            track(connection)
            try:
                threading.Thread(
                    target=self._answer,
                    args=(connection,),
                    name="echobuf-serve-job",
                    daemon=True,
                ).start()
            except (RuntimeError, MemoryError) as error:
                self._refuse_busy(connection, error)

    def _refuse_busy(self, connection: socket.socket, error: Exception) -> None:
        """Refuse a connection for now, since no thread can be started."""
        connection.settimeout(0.0)
        why = f"the server {self._name!r} has no thread left: {describe(error)}"
        self._refuse(connection, why, "busy")
        connection.close()
        self._ended.wait(_ACCEPT_RETRY_S)

    def _answer(self, connection: socket.socket) -> None:
        with self._lock:
            if self._closed:
                connection.close()
                return
            self._connections.add(connection)
        files: list[int] = []
        try:
            process = address.check_peer(connection)
            message, files = protocol.receive(connection, _REQUEST_TIMEOUT_S)
            connection.settimeout(_REQUEST_TIMEOUT_S)
            if message is not None:
                self._handle(connection, message, files, process)
        except CapacityError:  # may pass
            why = f"the server {self._name!r} has no file descriptor left"
            self._refuse(connection, why, "busy")
        except EchobufError as error:
            self._refuse(connection, str(error))
        except (OSError, RuntimeError):
            pass  # the peer has gone or sent nothing, or the ring is released
        except Exception as error:
            self._refuse(
                connection,
                f"the server {self._name!r} cannot make out what this says "
                f"({describe(error)})",
            )
        finally:
            protocol.close_files(files)
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def _refuse(self, connection: socket.socket, why: str, kind: str = "error") -> None:
        with contextlib.suppress(OSError):
            protocol.send(connection, {kind: why})

    def _handle(
        self,
        connection: socket.socket,
        message: Message,
        files: list[int],
        process: int,
    ) -> None:
        if message.get("version") != protocol.VERSION:
            raise OptionError(
                f"the server {self._name!r} is of echobuf {protocol.VERSION}, and this "
                f"job of {message.get('version')!r}; they must be the same."
            )
        what = message["what"]
        if what == "resume":
            self._adopt(message, files)
        while not self._open.wait(_WAIT_MESSAGE_S):
            protocol.send(connection, {"wait": True})  # raises if the job has gone
        if self._closed:
            return
        if what == "status":
            protocol.send(connection, asdict(self._status()))
        elif what == "attach":
            self._handle_attach(connection, str(message["job"]), process)
        elif what == "resume":
            self._handle_resume(connection, message, process)

    def _handle_attach(self, connection: socket.socket, job: str, process: int) -> None:
        with self._lock:  # else the server might end, and close the connection
            if self._closed or has_gone(connection):
                return
            if not self._has_discarded:
                # Before the job has a seat: then the last epoch may begin and end.
                self._marker.note(self.ring.session().hex())
            seat = self._assign_seat(job)
            self._jobs[seat] = job, process
            with contextlib.suppress(OSError):  # the job has gone again
                protocol.send(
                    connection,
                    {"seat": seat, **asdict(self._info)},
                    self._files(),
                )
        self._wait_for_disconnect(connection, seat)

    def _files(self) -> tuple[int, ...]:
        """Return descriptors of the memory that jobs share."""
        log = () if self._log is None else (self._log.descriptor,)
        return self.ring.header_fd(), self.ring.memory_fd(), *log

    def _assign_seat(self, job: str) -> tuple[int, int]:
        if any(name == job for name, _ in self._attached_jobs().values()):
            raise OptionError(
                f"`job` is {job!r}, and a job of that name is attached to "
                f"{self._name!r}; choose another, or leave it out."
            )
        seat = self.ring.take_seat()
        if seat is None:
            raise OptionError(f"{self._name!r} has no seat left for a job (64).")
        return seat

    def _handle_resume(
        self, connection: socket.socket, message: Message, process: int
    ) -> None:
        seat = int(message["seat"][0]), int(message["seat"][1])
        if message["session"] != self.ring.session().hex():
            raise OptionError(
                f"the server {self._name!r} is another one, which began anew."
            )
        if not self.ring.holds(*seat):
            raise OptionError("the seat of this job was given up: its lease was over.")
        with self._lock:
            self._jobs[seat] = str(message["job"]), process
        with contextlib.suppress(OSError):
            protocol.send(connection, {"seat": seat})
        self._wait_for_disconnect(connection, seat)

    def _wait_for_disconnect(
        self, connection: socket.socket, seat: tuple[int, int]
    ) -> None:
        """Wait until the job closes the connection, and free its seat."""
        connection.settimeout(None)
        try:
            while connection.recv(1):
                pass
        except OSError:
            pass
        finally:
            self._remove(seat)

    def _remove(self, seat: tuple[int, int]) -> None:
        with self._lock:
            if self._closed:  # the server has closed the connection, not the job
                return
            self._jobs.pop(seat, None)
            self.ring.leave_seat(*seat)
            if not self._any_jobs():
                self._marker.clear()

    def _attached_jobs(self) -> dict[tuple[int, int], tuple[str, int]]:
        """Return the jobs that still have their seats."""
        self._jobs = {
            seat: job for seat, job in self._jobs.items() if self.ring.holds(*seat)
        }
        return self._jobs

    # ---- status

    def _status(self) -> Status:
        before, start = self._counts(), time.monotonic()
        time.sleep(_RATE_S)
        after, seconds = self._counts(), time.monotonic() - start
        published, reports = after
        begun, ended = self.ring.epochs()
        with self._lock:
            by_seat = {seat[0]: job for seat, job in self._jobs.items()}
        jobs = []
        for seat, (waiting, epoch, taken, held, silent_s) in reports.items():
            name, process = by_seat.get(seat, ("?", 0))
            earlier = before[1].get(seat)
            rate = 0.0 if earlier is None else max(0, taken - earlier[2]) / seconds
            lag = 0 if waiting else max(0, published - taken)
            jobs.append(Job(name, process, epoch, waiting, rate, lag, held, silent_s))
        return Status(
            name=self._name,
            process=os.getpid(),
            version=protocol.VERSION,
            spec=self._info.spec,
            epoch=max(0, begun - 1) if begun > ended else begun,
            running=begun > ended,
            published=published,
            rate=(published - before[0]) / seconds,
            slots=self.ring.slots(),
            lease_s=self._info.lease_s,
            jobs=tuple(jobs),
        )

    def _counts(self) -> tuple[int, dict[int, tuple[Any, ...]]]:
        jobs = {seat: tuple(rest) for seat, *rest in self.ring.jobs()}
        return self.ring.published(), jobs


def has_gone(connection: socket.socket) -> bool:
    """Return True if the peer has closed the connection."""
    before = connection.gettimeout()
    connection.settimeout(0.0)
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.settimeout(before)


# ---- the memory of the last server of a name, which its jobs share


class Adoption:
    """Takes the memory of the last server from the first job that reconnects.

    Attributes:
        adopted: the first message of that job, and descriptors of the memory; None
            before one has come.
    """

    def __init__(self, session: str | None) -> None:
        self._session = session
        self.adopted: tuple[Message, list[int]] | None = None
        self._has_adopted = Signal()
        self._lock = threading.Lock()
        self._is_open = True

    def offer(self, message: Message, files: list[int]) -> None:
        """Take the memory that a job shares, on its thread, unless it is too late."""
        with self._lock:
            if not self._is_open or self.adopted is not None or len(files) < 2:
                return
            if message["session"] != self._session:  # of a server before the last
                return
            if not isinstance(message["spec"], str):
                raise TypeError("no spec")
            own: list[int] = []
            try:
                for file in files:
                    own.append(os.dup(file))
            except OSError:
                close_files(own)
                raise CapacityError("no file descriptor is left") from None
            self.adopted = message, own
            self._has_adopted.set()

    def wait(self, timeout: float) -> bool:
        """Wait for a job's memory; return whether it has come."""
        return self._has_adopted.wait(timeout)

    def stop(self) -> None:
        """Take nothing from now on."""
        with self._lock:
            self._is_open = False

    def close(self) -> None:
        """Take nothing from now on, and close the descriptors of what was taken."""
        self.stop()
        for file in self.adopted[1] if self.adopted is not None else ():
            os.close(file)
