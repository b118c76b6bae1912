"""The worker processes of a loader: started, watched, and started again."""

from __future__ import annotations

import atexit
import os
import pickle
import threading
import time
import weakref
from collections.abc import Callable
from multiprocessing import connection
from typing import Any

import numpy as np
import numpy.typing as npt

from echobuf import _core
from echobuf.buffer import EchoBuffer
from echobuf.loader.adapter import Adapter
from echobuf.side_host import HostSide
from echobuf.workers.settings import Settings
from echobuf.workers.task import READY, Task, unpack_error
from echobuf.workers.worker import Worker

_AHEAD = 16  # examples that a worker is told at a time
_PATIENCE_S = 1.0  # with workers that were told to end
_SLICE_S = 0.05

_crews: weakref.WeakSet[Crew] = weakref.WeakSet()


class Crew:
    """The workers of a loader, for all of its epochs.

    Dropping it ends them; nothing waits for that.

    Args:
        settings: how many, and how they are started.
        dataset: that each reads, as a copy of its own.
        adapter: that reads its items.
        example: the first one.
        buffer: that they write into.

    Raises:
        OptionError: `dataset` cannot be sent to another process.
    """

    def __init__(
        self,
        settings: Settings,
        dataset: Any,
        adapter: Adapter,
        example: Any,
        buffer: EchoBuffer,
    ) -> None:
        side = buffer._side
        assert isinstance(side, HostSide)
        core = _core.Crew(side.core, settings.count, _AHEAD)
        tasks = [
            Task(
                number,
                settings.count,
                dataset,
                adapter,
                pickle.dumps(example),
                side.slots,
                settings.init,
            )
            for number in range(settings.count)
        ]
        self._core = core
        self._watch = _Watch(settings, core, tasks, weakref.ref(buffer))
        _crews.add(self)

    def begin(self) -> int:
        """An epoch begins: its term. Workers may die as often again."""
        self._watch.begin()
        return self._core.term()

    def give(self, term: int, indices: npt.NDArray[np.int64]) -> bool:
        """Gives out examples in order; False once the term has ended."""
        code, _ = self._core.give(term, indices, 0)
        return code == 0

    def settle(self, is_over: Callable[[], bool]) -> None:
        """Waits until all that was given is there, or is not wanted any more."""
        while not self._core.settle(_SLICE_S):
            if is_over() or self._watch.has_failed:
                self._watch.revoke()

    def fail(self, error: BaseException) -> None:
        """The epoch has failed: what was given is not wanted any more."""
        self._watch.fail(error)

    def close(self) -> None:
        """Tells the workers to end."""
        self._watch.close()

    def join(self, deadline: float) -> None:
        """Waits for them."""
        self._watch.join(deadline)

    def __del__(self) -> None:
        if hasattr(self, "_watch"):
            self.close()


class _Watch:
    """The thread that hears of workers, and what it knows; holds no loader."""

    def __init__(
        self,
        settings: Settings,
        core: _core.Crew,
        tasks: list[Task],
        buffer: weakref.ref[EchoBuffer],
    ) -> None:
        self._settings = settings
        self._core = core
        self._tasks = tasks
        self._buffer = buffer
        # Guards what follows, and that an epoch does not end between the look whether
        # a failure is its own and the failure.
        self._lock = threading.RLock()
        self._workers: list[Worker | None] = [None] * settings.count
        self._restarts = 0
        self._closed = False
        self.has_failed = False  # the epoch
        self._bell, self._ring = os.pipe()
        try:
            for number in range(settings.count):
                self._start(number)
        except BaseException:
            self._closed = True
            self._end_all()
            raise
        self._thread = threading.Thread(
            target=self._run, name="echobuf-workers", daemon=True
        )
        self._thread.start()

    # ---- for the thread that gives

    def begin(self) -> None:
        with self._lock:
            self._restarts = 0
            self.has_failed = False
            if self._closed:
                return
            for number, worker in enumerate(self._workers):
                if worker is None:
                    self._start(number)

    def revoke(self) -> None:
        with self._lock:
            self._core.revoke()
            for number, worker in enumerate(self._workers):
                if worker is None:
                    self._core.bury(number)

    def fail(self, error: BaseException) -> None:
        with self._lock:
            self.has_failed = True
            buffer = self._buffer()
            if buffer is not None:
                buffer.fail(error)
            self.revoke()

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                self._core.close()
                os.write(self._ring, b"x")

    def join(self, deadline: float) -> None:
        self._thread.join(max(0.0, deadline - time.monotonic()))

    # ---- the thread

    def _run(self) -> None:
        while not self._closed:
            self._hear()
        self._core.revoke()
        self._end_all()

    def _hear(self) -> None:
        alive = [worker for worker in self._workers if worker is not None]
        pipes = {worker.pipe: worker for worker in alive}
        sentinels = {worker.sentinel: worker for worker in alive}
        ready = connection.wait([self._bell, *pipes, *sentinels])
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
                    self._fail(worker, ticket, unpack_error(packed))
        except (EOFError, OSError):
            pass  # the sentinel says more

    def _fail(self, worker: Worker, ticket: int | None, error: BaseException) -> None:
        with self._lock:
            if ticket is None or self._core.is_wanted(worker.number, ticket):
                self.fail(error)

    def _bury(self, worker: Worker) -> None:
        self._listen(worker)  # what it had still said
        worker.end(_PATIENCE_S)
        number = worker.number
        with self._lock:
            if self._closed:
                return
            self._workers[number] = None
            self._restarts += 1
            if not worker.is_hopeless and self._restarts <= self._settings.max_restarts:
                self._start(number)
                return
            self.fail(worker.death(self._settings.max_restarts))

    def _start(self, number: int) -> None:
        self._workers[number] = Worker(self._settings, self._core, self._tasks[number])

    def _end_all(self) -> None:
        self._core.close()
        for worker in self._workers:
            if worker is not None:
                worker.end(_PATIENCE_S)
        with self._lock:
            os.close(self._bell)
            os.close(self._ring)


def _end_all() -> None:
    """Ends the workers before the interpreter goes."""
    crews = list(_crews)
    for crew in crews:
        crew.close()
    deadline = time.monotonic() + _PATIENCE_S
    for crew in crews:
        crew.join(deadline)


atexit.register(_end_all)
