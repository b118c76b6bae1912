"""The thread that hears of worker processes, and starts them again."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections import deque
from dataclasses import replace
from multiprocessing import connection

from echobuf import _core
from echobuf._engine.engine import Engine
from echobuf.errors import ClosedError, DeviceError
from echobuf.threads import DaemonThread, Signal
from echobuf.workers.settings import Settings
from echobuf.workers.task import READY, Task, unpack_error
from echobuf.workers.worker import PATIENCE_S, Worker, end_all

_SLICE_S = 0.05
_STUCK_S = 5.0  # with a worker whose example nobody wants any more


class Watch:
    """What is known of the workers of a loader; holds no loader.

    Args:
        settings: how many, and how they are started.
        core: their tickets.
        tasks: of each.
        engine: of the buffer that they write into.

    Raises:
        OptionError: a task cannot be sent to another process.
    """

    def __init__(
        self,
        settings: Settings,
        core: _core.Crew,
        tasks: list[Task],
        engine: weakref.ref[Engine],
    ) -> None:
        self._settings = settings
        self._core = core
        self._tasks = tasks
        self._engine = engine
        self._process = os.getpid()
        # Guards what follows, and that an epoch does not end between the look whether
        # a failure is its own and the failure.
        self._lock = threading.RLock()
        self._workers: list[Worker | None] = [None] * settings.count
        # Whose pipes the thread closes, which reads them; without the lock.
        self._dead: deque[Worker] = deque()
        self._starts = 0
        self._restarts = 0
        self._closed = False
        self._fed: int | None = None  # the term that is fed: what dies now is missed
        self._has_failed = False  # that term
        self._is_over = False  # it: what dies now is not started again
        self._bell, self._ring = os.pipe()
        try:
            self._start_missing()
            self._thread = DaemonThread(self._run, name="echobuf-workers")
            self._thread.start()
        except BaseException:
            self._finish()
            raise

    # ---- for the thread that feeds

    def begin(self) -> int:
        """An epoch begins: its term. Workers may die as often again."""
        with self._lock:
            self._bury_idle()
            self._restarts = 0
            self._has_failed = self._is_over = False
            self._fed = self._core.term()
            if self._closed:  # as the interpreter exits: nobody would make its examples
                self._core.abandon(self._fed)
            else:
                self._start_missing()
                os.write(self._ring, b"x")  # there are others to hear now
            return self._fed

    def settle(self, term: int, stopped: Signal) -> bool:
        """Waits until all that was given is there, or is not wanted any more.

        Returns:
            Whether it is there.
        """
        counts = self._core.given()
        stuck = None
        while not self._core.settle(counts, _SLICE_S):
            if not (stopped.is_set() or self._has_failed or self._closed):
                continue
            self._give_up(term, counts)
            stuck = stuck or time.monotonic() + _STUCK_S
            if time.monotonic() > stuck:
                self._end_stuck(insist=time.monotonic() > stuck + PATIENCE_S)
        with self._lock:
            is_there = stuck is None and not self._has_failed
            if self._fed == term:
                self._fed = None
            return is_there

    def abandon(self, term: int) -> None:
        """Ends a term, unless another has begun: its loop was left half-way."""
        if self._process == os.getpid():
            self._core.abandon(term)

    def fail(self, error: BaseException) -> None:
        """The epoch has failed: what was given is not wanted any more."""
        with self._lock:
            if self._fed is None or self._fed != self._core.term():
                return
            self._has_failed = True
            engine = self._engine()
            try:
                if engine is not None:
                    # One that was left, or whose device is gone, says so itself.
                    with contextlib.suppress(ClosedError, DeviceError):
                        engine.fail(error)
            finally:
                self._revoke(self._fed, self._core.given())

    def close(self) -> None:
        """Tells the workers to end, and this thread to see to it."""
        if self._process != os.getpid():  # a fork: they are the parent's
            return
        # As the interpreter goes away this is called once more, and a thread that runs
        # no further may have the lock.
        if self._closed:
            return
        with self._lock:
            if not self._closed:
                # Before anything that was not written can be committed.
                self._core.abandon(self._core.term())
                self._closed = True
                self._core.close()
                os.write(self._ring, b"x")

    def join(self, deadline: float) -> None:
        """Waits until they have ended."""
        if self._process == os.getpid():
            self._thread.join(max(0.0, deadline - time.monotonic()))

    # ---- the thread

    def _run(self) -> None:
        try:
            while not self._closed:
                self._hear()
        finally:
            self._core.abandon(self._core.term())
            self._finish()

    def _hear(self) -> None:
        while self._dead:
            self._dead.popleft().bury()
        alive = [worker for worker in list(self._workers) if worker is not None]
        pipes = {worker.pipe: worker for worker in alive if not worker.is_silent}
        sentinels = {worker.sentinel: worker for worker in alive}
        ready = connection.wait([self._bell, *pipes, *sentinels])
        if self._bell in ready:
            os.read(self._bell, 4096)
        for each in ready:
            if each in pipes:
                self._listen(pipes[each])
        for each in ready:
            if each in sentinels and not self._closed:
                self._bury(sentinels[each])

    def _listen(self, worker: Worker) -> None:
        try:
            while worker.pipe.poll():
                what, ticket, packed = worker.pipe.recv()
                if what == READY:
                    worker.is_ready = True
                else:
                    self._hear_failure(worker, ticket, unpack_error(packed))
        except (EOFError, OSError):
            worker.is_silent = True  # the sentinel says more

    def _hear_failure(
        self, worker: Worker, ticket: int | None, error: BaseException
    ) -> None:
        with self._lock:
            if ticket is None:  # it could not begin, and ends
                end_all([worker], PATIENCE_S)
                self._workers[worker.number] = None
                self.fail(error)
            elif self._core.is_wanted(worker.number, ticket):
                self.fail(error)

    def _bury(self, worker: Worker) -> None:
        self._listen(worker)  # what it had still said
        with self._lock:
            if self._workers[worker.number] is not worker:
                return
            worker.bury()
            self._workers[worker.number] = None
            if self._closed or self._fed is None or self._has_failed or self._is_over:
                return  # the next epoch starts another one
            self._restarts += 1
            if worker.is_hopeless or self._restarts > self._settings.max_restarts:
                self.fail(worker.death(self._settings.max_restarts))
                return
            try:
                self._start(worker.number)
            except BaseException as error:
                self.fail(error)

    # ---- the parts of it

    def _bury_idle(self) -> None:
        """Take out workers that died between two epochs: they count in neither."""
        if self._closed:
            return
        for number, worker in enumerate(self._workers):
            if worker is not None and not worker.process.is_alive():
                self._dead.append(worker)
                self._workers[number] = None

    def _start_missing(self) -> None:
        for number, worker in enumerate(self._workers):
            if worker is None:
                self._start(number)

    def _start(self, number: int) -> None:
        task = replace(self._tasks[number], start=self._starts)
        self._starts += 1
        self._workers[number] = Worker(self._settings, self._core, task)

    def _give_up(self, term: int, counts: list[int]) -> None:
        with self._lock:
            if self._fed == term:
                self._is_over = True
            self._revoke(term, counts)

    def _revoke(self, term: int, counts: list[int]) -> None:
        """Ends a term, and takes back what was given; never the latter alone."""
        with self._lock:
            self._core.revoke(term, counts)
            for number, worker in enumerate(self._workers):
                if worker is None:
                    self._core.bury(number)

    def _end_stuck(self, insist: bool) -> None:
        with self._lock:
            for worker in self._workers:
                if worker is None or not self._core.outstanding(worker.number):
                    continue
                if insist:
                    worker.process.kill()
                else:
                    worker.process.terminate()

    def _finish(self) -> None:
        self._core.close()
        with self._lock:
            self._closed = True
            workers = [worker for worker in self._workers if worker is not None]
            workers += self._dead
        end_all(workers, PATIENCE_S)
        with self._lock:
            self._workers = [None] * len(self._workers)
            self._revoke(self._core.term(), self._core.given())
            os.close(self._bell)
            os.close(self._ring)
