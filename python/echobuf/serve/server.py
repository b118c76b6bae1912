"""`Server`: runs upstream once, for all the jobs that attach."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from echobuf import _core, describe_error
from echobuf.closing import Closing
from echobuf.describe_error import describe
from echobuf.errors import (
    CapacityError,
    EchobufError,
    OptionError,
    SpecError,
    UpstreamError,
)
from echobuf.limits import enough
from echobuf.loader.upstream import Start
from echobuf.options import MAX_WINDOW, check_int, check_options
from echobuf.serve import address
from echobuf.serve.desk import Desk, Terms
from echobuf.serve.intake import Intake
from echobuf.serve.sample import Sample
from echobuf.serve.station import Station, allocate
from echobuf.serve.wire import Message, close_files
from echobuf.threads import DaemonThread, Signal
from echobuf.workers.settings import check_workers

_SLICE_S = 0.25
_RESUME_S = 1.0  # beyond the lease, for jobs to come back


class Server(Closing):
    """Runs upstream once for several jobs of this machine, and keeps what they need.

    Each job that attaches (`echobuf.serve.attach(name)` as the upstream of a loader)
    gets every fresh example of an epoch, in upstream's order, without a copy: its
    window lies in the server's memory. An epoch begins when the last one has been read,
    for all jobs that are there then; it does not wait for them to have echoed it.

    The work is done on threads of this process, from construction on.

    Args:
        upstream: as for `EchoLoader`. `set_epoch`, if it has that, is called with the
            number of each epoch.
        name: that jobs attach to.
        window: the largest window that a job may have.
        lag: how many fresh examples the fastest job may be ahead of the slowest, beyond
            the slowest's window; `window` unless told. Then it waits.
        spill: a folder on a disk: the ring is a file there, without a name, and not in
            memory; so `lag` may be large. Jobs with `device="cuda"` cannot use it.
        jobs: how many to wait for before the first epoch.
        epochs: how many to run; without end unless told.
        lease: seconds without a sign of life after which a job is dropped.
        batched: as for `EchoLoader`.
        length: see there.
        sampler: see there, like the arguments that follow.
        num_workers: see there.
        multiprocessing_context: see there.
        worker_init_fn: see there.
        max_restarts: see there.
        seed: of the workers.

    Raises:
        OptionError: an argument is out of range, or the name is taken.
        UpstreamError: upstream yields nothing, or raises at once.
        SpecError: its first item cannot be stored, or jobs of a server that is gone
            had other examples.
        CapacityError: the ring does not fit the memory, or the disk.
    """

    def __init__(  # noqa: PLR0913 - what users may say of a server
        self,
        upstream: Iterable[Any],
        name: str,
        *,
        window: int,
        lag: int | None = None,
        spill: Any = None,
        jobs: int = 1,
        epochs: int | None = None,
        lease: float = 10.0,
        batched: bool | None = None,
        length: int | None = None,
        sampler: Iterable[int] | None = None,
        num_workers: int = 0,
        multiprocessing_context: Any = None,
        worker_init_fn: Callable[[int], Any] | None = None,
        max_restarts: int = 3,
        seed: int = 0,
    ) -> None:
        self.name = address.check_name(name)
        window = check_int("window", window, 1, MAX_WINDOW)
        lag = window if lag is None else check_int("lag", lag, 0, None)
        self._least = check_int("jobs", jobs, 1, _MOST_JOBS)
        self._epochs = None if epochs is None else check_int("epochs", epochs, 1, None)
        self._lease_s = _check_lease(lease)
        workers = check_workers(
            num_workers,
            multiprocessing_context,
            worker_init_fn,
            max_restarts,
            unit="example",
            batched=batched,
        )
        self._options = check_options(
            batch_size=1,
            window=window,
            factor=1,
            max_factor=1,
            unit="example",
            device="cpu",
            seed=seed,
            transform=None,
            prefetch=0,
            drop_last=False,
            max_bytes=None,
        )
        self._slots = 2 * window + lag
        self._spill = spill
        self._intake = Intake(
            upstream, batched=batched, length=length, sampler=sampler, workers=workers
        )
        self._stopped = Signal()
        self._closing = threading.RLock()
        self._finished = False
        self._closed = False
        self._restarting = False
        self._error: BaseException | None = None
        self._resumed: tuple[Message, list[int]] | None = None
        self._resuming = Signal()
        self._adopting = threading.Lock()
        self._adopts = True
        self._place = address.place(name)
        with enough("a server", "end other servers"):
            self._lock = address.Lock(self._place)
            try:
                self._begin()
            except BaseException:
                self._lock.release()
                raise

    def _begin(self) -> None:
        left = address.Left(self._place)
        self._left = left.read()
        self._desk = Desk(self._place, self._adopt)
        try:
            start, sample = self._intake.first()
            # They have a lease to notice that there is a server again.
            patience = 0.0 if self._left is None else self._lease_s + _RESUME_S
            self._resuming.wait(patience)
            self._adopts_no_more()
            if self._resumed is None:
                left.clear()
            self._station = self._make_station(sample)
            self._desk.open(self._station.core, self._terms(sample))
        except BaseException:
            self._desk.close()
            raise
        finally:
            self._adopts_no_more()
            for file in self._resumed[1] if self._resumed is not None else ():
                os.close(file)
        self._thread = DaemonThread(self._run, (start,), name="echobuf-serve")
        try:
            self._thread.start()
        except BaseException:
            self._restarting = True  # jobs may have come, and wait for another server
            self._stopped.set()  # first: where it was interrupted, the thread may run
            self._close()
            raise

    def _terms(self, sample: Sample) -> Terms:
        return Terms(
            self.name,
            sample,
            self._intake.count(),
            self._options.window,
            self._lease_s,
            self._station.is_spilled(),
        )

    def _make_station(self, sample: Sample) -> Station:
        if self._resumed is None:
            core = allocate(sample.spec, self._slots, self._spill, self._lease_s)
            return Station(sample, core, self._options)
        return self._adopt_station(sample, *self._resumed)

    def _adopt_station(
        self, sample: Sample, message: Message, files: list[int]
    ) -> Station:
        if message["spec"] != sample.describe():
            raise SpecError(
                f"jobs are attached to {self.name!r}, which served "
                f"{message['spec']}; examples are now {sample.describe()}. End those "
                "jobs first, or choose another name."
            )
        leaves = [(field.dtype, field.shape) for field in sample.spec.fields]
        try:
            core = _core.Station.adopt(leaves, files[0], files[1], self._lease_s)
        except (ValueError, RuntimeError, MemoryError) as error:
            raise CapacityError(
                f"the memory that jobs of {self.name!r} share cannot be opened: "
                f"{describe(error)}. End those jobs first, or choose another name."
            ) from error
        return Station(sample, core, self._options)

    def _adopt(self, message: Message, files: list[int]) -> None:
        """Takes what the first job that comes back shares, on its thread."""
        with self._adopting:
            if not self._adopts or self._resumed is not None or len(files) != 2:
                return
            if message["session"] != self._left:  # of a server before the last
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
            self._resumed = message, own
            self._resuming.set()

    def _adopts_no_more(self) -> None:
        with self._adopting:
            self._adopts = False

    # ---- epochs, on the thread

    def _run(self, start: Start) -> None:
        if self._stopped.is_set():  # and the name may be another server's by now
            return
        _core.this_thread_runs_upstream()
        try:
            if self._serve(start):
                self._finish("", False)
        except BaseException as error:
            self._error = error
            self._finish(_one_line(error), True)
        finally:
            self._desk.close()

    def _finish(self, why: str, failed: bool) -> None:
        """Tell jobs that there is no further epoch, and no other server."""
        self._station.core.finish(why, failed)
        self._desk.forget()
        self._finished = True

    def _serve(self, first: Start | None) -> bool:
        """Whether all epochs have been served."""
        core = self._station.core
        least = self._least
        while self._epochs is None or core.epochs()[1] < self._epochs:
            there = core.begun_before()
            if there is None:
                there = 0
                while not core.begin_epoch(least, _SLICE_S):
                    if self._stopped.is_set():
                        return False
            least = 1
            number = core.epochs()[1]
            start = first
            if start is None or number != 0:
                start = self._intake.begin(number)
            first = None
            self._intake.feed(self._station, start, there, self._stopped)
            cut_off = self._stopped.is_set()
            if cut_off and self._restarting:
                return False  # the next server goes on in this epoch
            # Jobs must not take this for its end.
            if self._station.error is not None:
                raise self._station.error
            # At the exit of the process feeders are stopped without this server.
            if cut_off or not self._station.is_whole():
                return False
            if not core.end_epoch() or self._stopped.is_set():
                return False
        return True

    # ---- life

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until all epochs were served; False if the time ran out.

        Raises:
            UpstreamError: upstream failed.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while self._thread.is_alive():
            left = 0.1 if end is None else min(0.1, end - time.monotonic())
            if left <= 0:
                return False
            self._thread.join(left)
        if self._error is not None:
            raise self._as_upstream_error() from self._error
        return True

    def _as_upstream_error(self) -> EchobufError:
        if isinstance(self._error, EchobufError):
            return type(self._error)(*self._error.args)
        assert self._error is not None
        return UpstreamError(f"upstream failed: {describe(self._error)}")

    def close(self, *, restarting: bool = False) -> None:
        """Ends the server; waits until upstream's current call returns.

        The first call decides how; others wait until it is done.

        Args:
            restarting: jobs wait for another server of this name, which goes on where
                this one has been. Else their next draw beyond what is there already
                raises `UpstreamError`.
        """
        with self._closing:  # and if that is interrupted, the next call goes on
            if not self._stopped.is_set():
                self._restarting = restarting
                self._stopped.set()
            if not self._closed:
                self._close()
                self._closed = True
            self._lock.release()  # last: the name may be another server's from now on

    def _close(self) -> None:
        """End all but the lock; each step may be done again, also after the last."""
        if not self._restarting and not self._finished:
            self._finish("the server was closed", True)
        has_jobs = self._desk.close()
        if self._restarting and not has_jobs:
            self._desk.forget()
        self._station.core.close()
        while self._thread.is_alive():
            self._thread.join(0.1)
        self._intake.close()
        self._station.core.release()

    def __repr__(self) -> str:
        return f"Server({self.name!r}, window={self._options.window})"


_MOST_JOBS = 64


def _check_lease(lease: Any) -> float:
    try:
        seconds = float(lease)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0.1 <= seconds <= 86_400:
        raise OptionError(
            f"`lease` is {lease!r}; it must be a number of seconds from 0.1 to 86400."
        )
    return seconds


def _one_line(error: BaseException) -> str:
    is_ours = isinstance(error, EchobufError)  # which says what it is
    said = describe_error.message(error) if is_ours else describe_error.titled(error)
    return " ".join(said.split())
