"""The reader of a loader with worker processes, and the thread that feeds them."""

from __future__ import annotations

import itertools
import os
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from echobuf.loader.arrivals import (
    ArrivalStates,
    Entered,
    OrderedStates,
    Replay,
)
from echobuf.loader.feeder import Feeder
from echobuf.loader.items import Adapter
from echobuf.loader.logged_carry import PooledCarried
from echobuf.loader.look_ahead import LookAhead
from echobuf.loader.readers import FeedRequest, Reader
from echobuf.loader.source import Order
from echobuf.loader.upstream import UpstreamStart
from echobuf.loader_buffer import LoaderBuffer
from echobuf.progress import watching
from echobuf.resources import enough
from echobuf.state import ENTERED_KEY
from echobuf.workers.messages import SharedEpoch, WorkerConfig
from echobuf.workers.object_log import JOB, TRAINER, ObjectLog
from echobuf.workers.pool import WorkerPool
from echobuf.workers.process import PATIENCE_S, WorkerProcess, join_all
from echobuf.workers.settings import WorkerSettings

_CLOSE_TIMEOUT_S = 10.0  # for workers in the middle of an example
_SHOWN = 8  # items in a line about workers
_CHUNK = 64  # indices taken from the sampler and submitted together, but
_CHUNK_S = 0.005  # no longer than this, for samplers that are slow


class PoolReader(Reader):
    """A loader's reader that has worker processes; starts them with the first epoch.

    Args:
        settings: number of workers, and the way to start them.
        order: dataset and indices that the loader iterates.
        adapter: of the loader.

    Attributes:
        settings: the same.
        pool: the workers, once they are started; else None.
        is_pool: True: the reader has worker processes.
    """

    is_pool = True

    def __init__(
        self, settings: WorkerSettings, order: Order, adapter: Adapter
    ) -> None:
        self.settings = settings
        self._dataset = order.dataset
        self._adapter = adapter
        self._config: WorkerConfig | None = None
        self._begun: list[WorkerProcess] = []  # until there is a pool
        self._starts = 0
        weakref.finalize(self, _drop, self._begun).atexit = False
        self.pool: WorkerPool | None = None
        self._log: ObjectLog | None = None  # what examples carry, to this process
        self._has_example = False
        self._example: Any = None

    def close(self) -> None:
        """End the workers, and wait up to 10 s for them."""
        self._drop_begun()
        if self.pool is not None:
            self.pool.supervisor.close()
            self.pool.supervisor.join(time.monotonic() + _CLOSE_TIMEOUT_S)

    def check(self, start: UpstreamStart) -> UpstreamStart:
        """Let a worker make the first example, unless that was done before.

        Raises:
            OptionError: the dataset cannot be sent to other processes.
        """
        if start.items is None or self._has_example:
            return start
        self._start_missing()
        try:
            with watching("first item", lambda: f"item {start.first}, the first one"):
                self._example = self._make(start.first)
        except Exception as error:
            return UpstreamStart(error=error)
        self._has_example = True
        return start

    def _make(self, index: int) -> Any:
        """Return an example that worker 0 makes; if that dies, it is replaced."""
        for restarts in itertools.count():
            self._start_missing()
            worker = self._begun[0]
            try:
                return worker.ask(index)
            except EOFError:
                worker.reap()
                del self._begun[0]
                most = self.settings.max_restarts
                if worker.failed_at_start or restarts == most:
                    self._drop_begun()
                    raise worker.death_error(most) from None
            except BaseException as error:
                if not isinstance(error, Exception) or not worker.is_ready:
                    self._drop_begun()  # it answers no longer, or too late
                raise
        raise AssertionError

    def _start_missing(self) -> None:
        """Start all workers, of which one makes examples before there is a pool."""
        if self._config is None:
            takes_epoch = callable(getattr(self._dataset, "set_epoch", None))
            self._config = WorkerConfig(
                number=0,
                count=self.settings.count,
                dataset=self._dataset,
                adapter=self._adapter.in_worker(),
                seed=self.settings.seed,
                init=self.settings.init,
                epoch=SharedEpoch.create() if takes_epoch else None,
            )
        there = {worker.number for worker in self._begun}
        for number in sorted({*range(self.settings.count)} - there):
            config = replace(self._config, number=number, start=self._starts)
            self._starts += 1
            with enough("a loader with workers", "make `num_workers` smaller"):
                worker = WorkerProcess(self.settings, None, config)
            self._begun.insert(number, worker)

    def _drop_begun(self) -> None:
        begun = _drop(self._begun)
        join_all(begun, PATIENCE_S)

    def first_item(self, start: UpstreamStart) -> Any:
        """Return the first example, from which the spec is inferred."""
        return self._example

    def look(self, items: LookAhead, most: int) -> Iterator[Any]:
        """Let a worker make the next examples; workers make them again."""
        for index in items.look(most):
            try:
                yield self._make(index)
            except Exception as error:
                items.note(error)  # which a worker raises in its place
                return

    def describe_wait(self) -> str:
        """Return which items of the dataset the workers make."""
        if self.pool is None:
            return "the sampler has yielded no index"
        core, count = self.pool.core, self.settings.count
        items = [core.making(worker) for worker in range(count)]
        shown = [str(item) for item in items if item is not None]
        if not shown:
            return "the sampler has yielded no index for the workers"
        more = len(shown) - _SHOWN
        return (
            f"{len(shown)} of {count} workers are in item "
            f"{', '.join(shown[:_SHOWN])}{f' and {more} others' if more > 0 else ''}"
        )

    def feed(self, buffer: LoaderBuffer, request: FeedRequest) -> WorkerFeeder:
        """Start a thread that feeds an epoch; start the workers with the first one.

        Raises:
            OptionError: the dataset cannot be sent to other processes.
        """
        log = None if request.published is None else request.published.log
        if self.pool is None:
            assert self._config is not None
            try:
                if request.carrier is not None and log is None:
                    log = self._log = ObjectLog.create()
                self.pool = WorkerPool(
                    self.settings,
                    self._config,
                    self._example,
                    buffer,
                    self._begun,
                    log=log,
                    receiver=TRAINER if request.published is None else JOB,
                )
            except BaseException:  # what was short, such as threads, is so in them, too
                self._drop_begun()
                raise
            self._begun.clear()
        if request.told is not None:
            self.pool.set_epoch(request.told)
        return WorkerFeeder(self.pool, buffer, request, self._log)


def _drop(begun: list[WorkerProcess]) -> list[WorkerProcess]:
    """Let workers that have no pool end; return them."""
    dropped = [*begun]
    begun.clear()
    for worker in dropped:
        worker.drop()
    return dropped


class WorkerFeeder(Feeder):
    """A thread that feeds one epoch through workers; otherwise as `Feeder`.

    Args:
        pool: the workers; it is not kept, so that dropping it ends them.
        buffer: open, for this epoch.
        request: the epoch; its items are indices of the sampler.
        log: has what examples carry to this process.
    """

    def __init__(
        self,
        pool: WorkerPool,
        buffer: LoaderBuffer,
        request: FeedRequest,
        log: ObjectLog | None = None,
    ) -> None:
        self._core = core = pool.core
        self._supervisor = pool.supervisor
        term = self._supervisor.begin_epoch()
        resume = request.resume
        is_midway = resume is not None and resume["position"] is not None
        entered: Entered | None = None if resume is None else resume.get(ENTERED_KEY)
        offset = 0 if resume is None else resume["fresh_offset"]
        if entered is not None:
            self._replay = Replay.of(entered)
        elif is_midway and not pool.is_in_order:
            # Any of them may have been in the window.
            slots = buffer.backend.slots
            self._replay = Replay.in_order(request.needed, slots)
        else:
            self._replay = Replay.begin(request.needed)
        self._arrivals: ArrivalStates | None = None
        if not pool.is_in_order:
            self.positions = self._arrivals = ArrivalStates(
                core, term, request.number, offset, entered
            )
        elif entered is not None:
            self.positions = OrderedStates(request.number, offset, self._replay)
        self._published = request.published
        self._pooled: weakref.ref[PooledCarried] | None = None
        if request.carrier is not None and log is not None:
            entries = None if pool.is_in_order else (core, term)
            self.carried = PooledCarried(request.carrier, offset, log, entries)
            self._pooled = weakref.ref(self.carried)
        super().__init__(buffer, request.thread, request.start, term)

    def stop(self) -> None:
        """Ask the thread to end, and do not wait for it."""
        # In this order: once stopped, the thread revokes items. Workers mark those as
        # done unwritten, so the term must have ended before.
        if not self._ended:
            self._supervisor.abandon(self._term)
        self.stopped.set()

    def _run(self, start: UpstreamStart) -> None:
        items, item = start.take()
        is_all = False
        try:
            is_all = self._submit_all(itertools.chain([item], items))
        except BaseException as error:
            del items, item
            if os.getpid() != self._process:
                raise  # a child that the sampler has forked
            self._supervisor.fail(error)
        # The epoch ends once its last example is committed.
        if self._supervisor.wait_committed(self._term, self.stopped) and is_all:
            self._sink.close()
        self._ended = True

    def _submit_all(self, indices: Iterator[int]) -> bool:
        """Submit all indices; return False if the term or the feeder was ended."""
        # An iterator that lets go of the sampler's when that raises: the error keeps
        # this frame.
        indices = itertools.islice(indices, None)
        replay, first = self._replay.take(indices, self._goes_on)
        if not self._goes_on():
            return False
        item = self._core.submitted()
        if self._published is not None:
            self._published.log.shift = self._published.first - item
        pooled = None if self._pooled is None else self._pooled()
        if pooled is not None:
            pooled.begin(item)
            del pooled  # its objects may refer to the loader
        if self._arrivals is None:
            self._core.begin(self._term, None)
        else:
            self._arrivals.begin(replay)
        indices = itertools.chain(first, indices)
        while not self.stopped.is_set():
            chunk = _next_chunk(indices)
            if not chunk.size:
                return True
            code, _ = self._core.submit(self._term, chunk, 0)
            if code != 0:
                break  # the term has ended
        return False

    def _goes_on(self) -> bool:
        return not self.stopped.is_set()


def _next_chunk(indices: Iterator[int]) -> npt.NDArray[np.int64]:
    chunk: list[int] = []
    end = time.monotonic() + _CHUNK_S
    for index in indices:
        chunk.append(index)
        if len(chunk) == _CHUNK or time.monotonic() > end:
            break
    return np.array(chunk, np.int64)
