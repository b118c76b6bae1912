"""Where jobs come to a server, and are told what they need."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from echobuf import _core
from echobuf.describe_error import describe
from echobuf.errors import CapacityError, EchobufError, OptionError
from echobuf.forked import track
from echobuf.serve import address, wire
from echobuf.serve.sample import Sample
from echobuf.serve.wire import Message
from echobuf.threads import Signal

VERSION = _core.__version__

_RATE_S = 0.5
_REPLY_S = 5.0  # for what a peer sends first, and for it to take an answer
_WORD_S = 1.0  # between two words to who waits for the first example
_PAUSE_S = 0.1  # after nothing could be accepted


@dataclass(frozen=True)
class Terms:
    """What jobs are told.

    Attributes:
        name: of the server.
        sample: what examples look like.
        length: fresh examples an epoch, where that is known.
        window: the largest that a job may have.
        lease_s: seconds of silence after which a job is dropped.
        spilled: whether examples are kept on a disk.
    """

    name: str
    sample: Sample
    length: int | None
    window: int
    lease_s: float
    spilled: bool


class Desk:
    """Answers jobs, each on a thread of its own.

    Args:
        place: of the server, whose lock is held.
        adopt: gives what the jobs of a server that is gone share to the new one.
    """

    def __init__(
        self, place: Path, adopt: Callable[[Message, list[int]], None]
    ) -> None:
        self._place, self._name = place, place.name
        self._adopt = adopt
        self._left = address.Left(place)
        self._open = Signal()  # there is a ring
        self._closed = self._had_jobs = False
        self._ended = Signal()  # with that
        self._forgotten = False
        self._lock = threading.Lock()
        self._jobs: dict[tuple[int, int], tuple[str, int]] = {}  # seat: job, process
        self._connections: set[socket.socket] = set()
        self._socket = address.listen(place)
        self._thread = threading.Thread(
            target=self._accept, name="echobuf-serve-desk", daemon=True
        )
        try:
            self._thread.start()
        except BaseException:
            self._ended.set()  # where it was interrupted, the thread may run
            address.close(place, self._socket)
            raise

    def open(self, core: _core.Station, terms: Terms) -> None:
        """There is a ring: jobs may come."""
        self._core, self._terms = core, terms
        self._open.set()

    def close(self) -> bool:
        """Take no further job; return whether there were jobs at the first call."""
        with self._lock:
            if not self._closed:  # later the ring may have been released
                self._had_jobs = self._has_jobs()
                self._closed = True
            connections = list(self._connections)
        self._ended.set()
        address.close(self._place, self._socket)
        self._open.set()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        return self._had_jobs

    def _has_jobs(self) -> bool:
        """Those, too, that have yet to notice that there is a server again."""
        return self._open.is_set() and bool(self._core.jobs())

    def forget(self) -> None:
        """There will be no other server for these jobs."""
        with self._lock:
            self._forgotten = True
            self._left.clear()

    # ---- on threads

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed; or no descriptor is left, which may pass
                self._ended.wait(_PAUSE_S)
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
                self._turn_away(connection, error)

    def _turn_away(self, connection: socket.socket, error: Exception) -> None:
        """No thread can be started, which may pass."""
        connection.settimeout(0.0)
        why = f"the server {self._name!r} has no thread left: {describe(error)}"
        self._refuse(connection, why, "busy")
        connection.close()
        self._ended.wait(_PAUSE_S)

    def _answer(self, connection: socket.socket) -> None:
        with self._lock:
            if self._closed:
                connection.close()
                return
            self._connections.add(connection)
        files: list[int] = []
        try:
            process = address.check_peer(connection)
            message, files = wire.receive(connection, _REPLY_S)
            connection.settimeout(_REPLY_S)
            if message is not None:
                self._serve(connection, message, files, process)
        except CapacityError:  # which may pass
            why = f"the server {self._name!r} has no file descriptor left"
            self._refuse(connection, why, "busy")
        except EchobufError as error:
            self._refuse(connection, str(error))
        except (OSError, RuntimeError):
            pass  # it has gone, or has said nothing; or the ring has gone
        except Exception as error:
            self._refuse(
                connection,
                f"the server {self._name!r} cannot make out what this says "
                f"({describe(error)})",
            )
        finally:
            wire.close_files(files)
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def _refuse(self, connection: socket.socket, why: str, kind: str = "error") -> None:
        with contextlib.suppress(OSError):
            wire.send(connection, {kind: why})

    def _serve(
        self,
        connection: socket.socket,
        message: Message,
        files: list[int],
        process: int,
    ) -> None:
        if message.get("version") != VERSION:
            raise OptionError(
                f"the server {self._name!r} is of echobuf {VERSION}, and this job of "
                f"{message.get('version')!r}; they must be the same."
            )
        what = message["what"]
        if what == "resume":
            self._adopt(message, files)
        while not self._open.wait(_WORD_S):
            wire.send(connection, {"wait": True})  # raises if it has gone
        if self._closed:
            return
        if what == "status":
            wire.send(connection, self._report())
        elif what == "attach":
            self._attach(connection, str(message["job"]), process)
        elif what == "resume":
            self._resume(connection, message, process)

    def _attach(self, connection: socket.socket, job: str, process: int) -> None:
        with self._lock:  # or the server might be through, and close this
            if self._closed or _has_gone(connection):
                return
            if not self._forgotten:
                # Before it has a seat, with which the last epoch may begin and end.
                self._left.note(self._core.session().hex())
            seat = self._seat(job)
            self._jobs[seat] = job, process
            terms = self._terms
            with contextlib.suppress(OSError):  # it has gone again
                wire.send(
                    connection,
                    {
                        "seat": seat,
                        "lease_s": terms.lease_s,
                        "sample": wire.pack(terms.sample),
                        "length": terms.length,
                        "window": terms.window,
                        "spilled": terms.spilled,
                    },
                    (self._core.feed(), self._core.memory()),
                )
        self._stay(connection, seat)

    def _seat(self, job: str) -> tuple[int, int]:
        if any(name == job for name, _ in self._held().values()):
            raise OptionError(
                f"`job` is {job!r}, and a job of that name is attached to "
                f"{self._name!r}; choose another, or leave it out."
            )
        seat = self._core.take_seat()
        if seat is None:
            raise OptionError(f"{self._name!r} has no seat left for a job (64).")
        return seat

    def _resume(
        self, connection: socket.socket, message: Message, process: int
    ) -> None:
        seat = int(message["seat"][0]), int(message["seat"][1])
        if message["session"] != self._core.session().hex():
            raise OptionError(
                f"the server {self._name!r} is another one, which began anew."
            )
        if not self._core.holds(*seat):
            raise OptionError("the place of this job was given up: its lease was over.")
        with self._lock:
            self._jobs[seat] = str(message["job"]), process
        with contextlib.suppress(OSError):
            wire.send(connection, {"seat": seat})
        self._stay(connection, seat)

    def _stay(self, connection: socket.socket, seat: tuple[int, int]) -> None:
        """Until the job goes."""
        connection.settimeout(None)
        try:
            while connection.recv(1):
                pass
        except OSError:
            pass
        finally:
            self._leave(seat)

    def _leave(self, seat: tuple[int, int]) -> None:
        with self._lock:
            if self._closed:  # it is not the job that goes
                return
            self._jobs.pop(seat, None)
            self._core.leave_seat(*seat)
            if not self._has_jobs():
                self._left.clear()

    def _held(self) -> dict[tuple[int, int], tuple[str, int]]:
        """The jobs that have not been dropped."""
        self._jobs = {
            seat: job for seat, job in self._jobs.items() if self._core.holds(*seat)
        }
        return self._jobs

    # ---- what there is

    def _report(self) -> Message:
        before, start = self._counts(), time.monotonic()
        time.sleep(_RATE_S)
        after, seconds = self._counts(), time.monotonic() - start
        published, reports = after
        begun, ended = self._core.epochs()
        with self._lock:
            by_seat = {seat[0]: job for seat, job in self._jobs.items()}
        jobs = []
        for seat, (waiting, epoch, taken, held, silent_s) in reports.items():
            name, process = by_seat.get(seat, ("?", 0))
            earlier = before[1].get(seat)
            rate = 0.0 if earlier is None else max(0, taken - earlier[2]) / seconds
            jobs.append(
                {
                    "job": name,
                    "process": process,
                    "epoch": epoch,
                    "waiting": waiting,
                    "rate": rate,
                    "lag": 0 if waiting else max(0, published - taken),
                    "held": held,
                    "silent_s": silent_s,
                }
            )
        return {
            "name": self._name,
            "process": os.getpid(),
            "version": VERSION,
            "spec": self._terms.sample.describe(),
            "epoch": max(0, begun - 1) if begun > ended else begun,
            "running": begun > ended,
            "published": published,
            "rate": (published - before[0]) / seconds,
            "slots": self._core.slots(),
            "lease_s": self._terms.lease_s,
            "jobs": jobs,
        }

    def _counts(self) -> tuple[int, dict[int, tuple[Any, ...]]]:
        jobs = {seat: tuple(rest) for seat, *rest in self._core.jobs()}
        return self._core.published(), jobs


def _has_gone(connection: socket.socket) -> bool:
    """Say if the other end does not wait for an answer any more."""
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
