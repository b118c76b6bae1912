"""The worker processes of a loader, and the thread that supervises them."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing import connection
from typing import Any

from echobuf import _core
from echobuf.errors import CapacityError, ClosedError, DeviceError
from echobuf.loader_buffer import LoaderBuffer
from echobuf.resources import DaemonThread, Signal, members
from echobuf.workers.messages import (
    READY,
    RaggedConfig,
    RecordConfig,
    WorkerConfig,
    unpack_error,
)
from echobuf.workers.object_log import TRAINER, ObjectLog
from echobuf.workers.process import PATIENCE_S, WorkerProcess, join_all
from echobuf.workers.settings import WorkerSettings

_AHEAD = 16  # examples that are begun or made, for each worker
_EXIT_TIMEOUT_S = 4 * PATIENCE_S  # workers that must be killed take 3 of them

_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()
_SLICE_S = 0.05
_STUCK_S = 5.0  # until a worker that still makes a revoked example is terminated


class WorkerPool:
    """The worker processes of a loader, for all of its epochs.

    Dropping the pool asks the workers to end, and does not wait for them.

    Attributes:
        core: the native pool: the items to be made.
        is_in_order: examples enter the window in the sampler's order.
        supervisor: the part that threads hold; it holds no reference to the pool.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        config: WorkerConfig,
        example: Any,
        buffer: LoaderBuffer,
        begun: Sequence[WorkerProcess] = (),
        *,
        log: ObjectLog | None = None,
        receiver: str = TRAINER,
    ) -> None:
        backend = buffer.backend
        try:
            self.core = _make_core(settings, buffer)
        except MemoryError:
            raise CapacityError(
                f"the memory that {settings.count} workers share with this process was "
                "refused by the system. Make `num_workers` or `window` smaller, or see "
                "which limits this process has (`ulimit -a`)."
            ) from None
        ragged = RaggedConfig.of(buffer, self.core)
        record = RecordConfig(
            example,
            buffer.spec.fields,
            backend.slots,
            ragged,
            carries=log is not None,
            receiver=receiver,
        )
        configs = [
            replace(config, number=number, record=record)
            for number in range(settings.count)
        ]
        self._epoch = config.epoch
        self.is_in_order = settings.in_order
        self.supervisor = Supervisor(
            settings, self.core, configs, weakref.ref(buffer), begun, log
        )
        # At interpreter exit `_close_all` does this, while modules are still there.
        weakref.finalize(self, self.supervisor.close).atexit = False
        _pools.add(self)

    def set_epoch(self, number: int) -> None:
        """Tell the datasets of the workers, before their next example."""
        if self._epoch is not None:
            self._epoch.set(number)


def _make_core(settings: WorkerSettings, buffer: LoaderBuffer) -> _core.WorkerPool:
    backend, options = buffer.backend, buffer.options
    # From the oldest record that the last batch handed out needs to the last one in the
    # ring: what a pass sets free while batches are made ahead of it, and the ring.
    keep = 4 * backend.slots + (options.prefetch + 2) * options.window
    return _core.WorkerPool(backend.core, settings.count, _AHEAD, keep)


def _close_all() -> None:
    """End the workers of all pools before the interpreter exits."""
    supervisors = [pool.supervisor for pool in members(_pools)]
    for supervisor in supervisors:
        supervisor.close()
    deadline = time.monotonic() + _EXIT_TIMEOUT_S
    with contextlib.suppress(KeyboardInterrupt):  # workers end with this process
        for supervisor in supervisors:
            supervisor.join(deadline)


atexit.register(_close_all)


class Supervisor:
    """The state of a pool's worker processes, and a thread that waits for them.

    It holds no reference to the pool or the loader, so that dropping those ends it.

    Attributes:
        lock: guards the state; held from the check that a failure belongs to the
            current epoch until the epoch has failed.
        closed: True once the workers are asked to end.
        woken_fd: readable while the thread has yet to look at a change.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        core: _core.WorkerPool,
        configs: list[WorkerConfig],
        buffer: weakref.ref[LoaderBuffer],
        begun: Sequence[WorkerProcess] = (),
        log: ObjectLog | None = None,
    ) -> None:
        self._settings = settings
        self._log = log
        self._core = core
        self._configs = configs
        self._buffer = buffer
        self._process = os.getpid()
        self.lock = threading.RLock()
        self._workers: list[WorkerProcess | None] = [None] * settings.count
        # Dead workers whose pipes the thread closes, since it reads them; not locked.
        self._unreaped: deque[WorkerProcess] = deque()
        self._starts = 0
        self._restarts = 0
        self.closed = False
        self._term: int | None = None  # that is fed: a worker that dies now is replaced
        self._has_failed = False  # this term
        self._has_given_up = False  # this term: dead workers are not replaced
        self.woken_fd, self._wake_fd = os.pipe()
        try:
            self._take(begun)
            self._start_missing()
            self._thread = DaemonThread(self._run, name="echobuf-workers")
            self._thread.start()
        except BaseException:
            self._shut_down()
            raise

    # ---- called by the feeder's thread

    def begin_epoch(self) -> int:
        """Begin an epoch: reset the count of restarts; return the term."""
        with self.lock:
            self._reap_idle()
            self._restarts = 0
            self._has_failed = self._has_given_up = False
            self._term = self._core.term()
            if self.closed:  # at interpreter exit: no worker is left to make examples
                self._core.abandon(self._term)
            else:
                self._start_missing()
                os.write(self._wake_fd, b"x")  # wait for the new workers, too
            return self._term

    def wait_committed(self, term: int, stopped: Signal) -> bool:
        """Wait until all items submitted so far are in the ring, or revoked.

        Returns:
            True if the epoch's examples are all committed; False if the epoch failed or
            was stopped.
        """
        count = self._core.submitted()
        stuck = None
        while not self._core.wait_committed(count, _SLICE_S):
            if not (stopped.is_set() or self._has_failed or self.closed):
                continue
            self._give_up(term, count)
            stuck = stuck or time.monotonic() + _STUCK_S
            if time.monotonic() > stuck:
                self._kill_stuck(insist=time.monotonic() > stuck + PATIENCE_S)
        with self.lock:
            is_whole = stuck is None and not self._has_failed
            if self._term == term:
                self._term = None
            return is_whole

    def abandon(self, term: int) -> None:
        """End a term whose loop was left half-way, unless another has begun."""
        if self._process == os.getpid():
            self._core.abandon(term)

    def fail(self, error: BaseException) -> None:
        """Fail the current epoch with an error, and revoke its items."""
        with self.lock:
            if self._term is None or self._term != self._core.term():
                return
            self._has_failed = True
            buffer = self._buffer()
            try:
                if buffer is not None:
                    # A closed buffer, or one without its device, has its own error.
                    with contextlib.suppress(ClosedError, DeviceError):
                        buffer.fail(error)
            finally:
                self._revoke(self._term, self._core.submitted())

    def close(self) -> None:
        """Ask the workers to end; the thread terminates those that do not."""
        if self._process != os.getpid():  # a fork: the workers are the parent's
            return
        # Called again at interpreter exit, when a thread that runs no further may hold
        # the lock.
        if self.closed:
            return
        with self.lock:
            if not self.closed:
                # First: items that end unwritten must not be served.
                self._core.abandon(self._core.term())
                self.closed = True
                self._core.close()
                os.write(self._wake_fd, b"x")

    def join(self, deadline: float) -> None:
        """Wait until the workers have ended, or the deadline has passed."""
        if self._process == os.getpid():
            self._thread.join(max(0.0, deadline - time.monotonic()))

    # ---- the thread

    def _run(self) -> None:
        try:
            while not self.closed:
                self._wait_once()
        finally:
            self._core.abandon(self._core.term())
            self._shut_down()

    def _wait_once(self) -> None:
        while self._unreaped:
            self._unreaped.popleft().reap()
        alive = [worker for worker in list(self._workers) if worker is not None]
        pipes = {worker.pipe: worker for worker in alive if not worker.is_pipe_closed}
        sentinels = {worker.sentinel: worker for worker in alive}
        ready = connection.wait([self.woken_fd, *pipes, *sentinels])
        if self.woken_fd in ready:
            os.read(self.woken_fd, 4096)
        for each in ready:
            if each in pipes:
                self._read_messages(pipes[each])
        for each in ready:
            if each in sentinels and not self.closed:
                self._handle_death(sentinels[each])

    def _read_messages(self, worker: WorkerProcess) -> None:
        try:
            while worker.pipe.poll():
                what, item, packed = worker.pipe.recv()
                if what == READY:
                    worker.is_ready = True
                else:
                    self._handle_failure(worker, item, unpack_error(packed))
        except (EOFError, OSError):
            worker.is_pipe_closed = True  # the sentinel follows

    def _handle_failure(
        self, worker: WorkerProcess, item: int | None, error: BaseException
    ) -> None:
        with self.lock:
            if item is None:  # the worker failed at its start, and ends
                join_all([worker], PATIENCE_S)
                self._workers[worker.number] = None
                self.fail(error)
            elif self._core.is_wanted(item):
                self.fail(error)

    def _handle_death(self, worker: WorkerProcess) -> None:
        self._read_messages(worker)  # sent before it died
        with self.lock:
            if self._workers[worker.number] is not worker:
                return
            worker.reap()
            self._workers[worker.number] = None
            is_over = self._term is None or self._has_failed or self._has_given_up
            if self.closed or is_over:
                return  # the next epoch starts a new worker
            self._restarts += 1
            if worker.failed_at_start or self._restarts > self._settings.max_restarts:
                self.fail(worker.death_error(self._settings.max_restarts))
                return
            try:
                self._start(worker.number)
            except BaseException as error:
                self.fail(error)

    # ---- the parts of it

    def _reap_idle(self) -> None:
        """Reap workers that died between epochs, without counting a restart."""
        if self.closed:
            return
        for number, worker in enumerate(self._workers):
            if worker is not None and not worker.process.is_alive():
                self._unreaped.append(worker)
                self._workers[number] = None

    def _start_missing(self) -> None:
        for number, worker in enumerate(self._workers):
            if worker is None:
                self._start(number)

    def _take(self, begun: Sequence[WorkerProcess]) -> None:
        """Take workers that were started before, but for those that have died."""
        for worker in begun:
            self._workers[worker.number] = worker
            self._starts = max(self._starts, worker.start + 1)
        for worker in begun:
            record = self._configs[worker.number].record
            assert record is not None
            try:
                worker.go_on(self._core, record, self._log)
            except EOFError:
                worker.reap()
                self._workers[worker.number] = None

    def _start(self, number: int) -> None:
        config = replace(self._configs[number], start=self._starts)
        self._starts += 1
        self._workers[number] = WorkerProcess(
            self._settings, self._core, config, self._log
        )

    def _give_up(self, term: int, count: int) -> None:
        with self.lock:
            if self._term == term:
                self._has_given_up = True
            self._revoke(term, count)

    def _revoke(self, term: int, count: int) -> None:
        """End a term, and revoke the items below `count`, in that order."""
        with self.lock:
            self._core.revoke(term, count)
            for number, worker in enumerate(self._workers):
                if worker is None:
                    self._core.reap(number)

    def _kill_stuck(self, insist: bool) -> None:
        with self.lock:
            for worker in self._workers:
                if worker is None or self._core.making(worker.number) is None:
                    continue
                if insist:
                    worker.process.kill()
                else:
                    worker.process.terminate()

    def _shut_down(self) -> None:
        self._core.close()
        with self.lock:
            self.closed = True
            workers = [worker for worker in self._workers if worker is not None]
            workers += self._unreaped
        join_all(workers, PATIENCE_S)
        with self.lock:
            self._workers = [None] * len(self._workers)
            self._revoke(self._core.term(), self._core.submitted())
            os.close(self.woken_fd)
            os.close(self._wake_fd)
