"""Timing of upstream, alone and together with the step, watched by a timeout."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from echobuf.analysis import timing
from echobuf.analysis.device_work import ItemsInTurn, waits_for
from echobuf.analysis.source import Source, failed, raised_at
from echobuf.analysis.step import Step
from echobuf.analysis.timing import Phase, Timings
from echobuf.errors import SpecError, UpstreamError, describe
from echobuf.loader.caller_context import CallerContext
from echobuf.loader.loader import internals_of

T = TypeVar("T")

_END = object()
_SLICE_S = 0.05  # interval at which Ctrl-C is handled


class WatchedItems:
    """Count and time of a background thread's items, and the request to stop it."""

    def __init__(self) -> None:
        self.stopped = False  # True: end when upstream's current call returns
        self.count = 0
        self._last = time.monotonic()

    def tick(self) -> None:
        """Count an item."""
        self.count += 1
        self._last = time.monotonic()

    def silent_s(self) -> float:
        """Return the seconds since the last item."""
        return time.monotonic() - self._last


def run_watched(
    work: Callable[[WatchedItems], T], timeout: float, device: str = "cpu"
) -> T:
    """Run `work` on a background thread, as a loader does, while it makes progress.

    The thread has the context of the caller, as upstream's thread of a loader on
    `device` has it.

    `work` calls `watched.tick()` for each item, and ends once `watched.stopped`. After
    an `UpstreamError` for a time without items, longer than `timeout`, the thread is
    left behind: it ends when upstream's current call returns.
    """
    watched, outcome = WatchedItems(), Future[T]()
    context = CallerContext(device)

    def run() -> None:
        try:
            context.enter()
            try:
                result = context.run(work, watched)
            finally:
                context.leave()
        except BaseException as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(result)

    thread = threading.Thread(target=run, name="echobuf-analyze", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_SLICE_S)
            if watched.silent_s() > timeout and thread.is_alive():
                after = f"after {watched.count} items" if watched.count else "at all"
                raise UpstreamError(
                    f"`upstream` has yielded nothing {after} for {timeout:g} s; see "
                    "what it waits for, or, if an item may take longer, give a larger "
                    "`timeout`."
                )
    except BaseException:
        watched.stopped = True
        raise
    return outcome.result()


@dataclass
class ReadTotals:
    """Totals of a read of upstream."""

    items: int = 0
    examples: int = 0
    seconds: float = 0.0  # that upstream took for them, from `iter(upstream)` on
    startup_s: float = 0.0  # of these, until the first item
    ended: bool = False

    def add(self, more: ReadTotals) -> None:
        """Add the totals of what was read next."""
        if not self.items:
            self.startup_s = more.startup_s
        self.items += more.items
        self.examples += more.examples
        self.seconds += more.seconds
        self.ended = more.ended


class UpstreamTimer:
    """Timer of upstream alone, read on a background thread as a loader does.

    `timeout` is the seconds to wait for one item; `group` the items that arrive at
    about the same time, one of each worker.
    """

    def __init__(self, source: Source, timeout: float) -> None:
        self.source = source
        self.group = max(1, source.workers)
        self._timeout = timeout

    def read(
        self,
        timings: Timings,
        is_over: Callable[[ReadTotals], bool],
        *,
        items: Any = None,
        skip: int | None = None,
        keep: bool = False,
    ) -> ReadTotals:
        """Read items until `is_over`, asked after each item, or upstream ends.

        The first items, one of each worker or `skip`, are left out of the timings, as
        upstream starts with them. They count where there are hardly any others. `items`
        is an iterator to continue, by default a new one; with `keep` the source keeps
        the first items for a batch.
        """
        source, done = self.source, ReadTotals()
        skipped = self.group if skip is None else skip
        head: list[tuple[float, int]] = []

        def work(watched: WatchedItems) -> None:
            begin = timing.now()
            rest = ItemsInTurn(source.begin() if items is None else items)
            while not watched.stopped:
                try:
                    item = rest.next(_END)
                except (Exception, SystemExit) as error:
                    raise failed(done.items, error) from error
                seconds = timing.now() - begin
                if item is _END:
                    done.ended = True
                    return
                if keep:
                    source.keep(item)
                examples = source.examples_in(item)
                if examples:
                    watched.tick()
                done.add(ReadTotals(1, examples, seconds, seconds))
                if done.items <= skipped:
                    head.append((seconds, examples))
                else:
                    timings.add(seconds, examples)
                if is_over(done):
                    rest.finish()  # or it would slow down what is timed next
                    return
                del item
                begin = timing.now()

        run_watched(work, self._timeout, source.arguments.device)
        few = done.ended or timings.count < 2
        if few and done.items < skipped + 2 * self.group:
            for each in head:
                timings.add(*each)
        return done


class OverlapTimer:
    """Timer of training on a loader's batches, with e = 1 and one batch ahead.

    Waits for the device after each step, so that the next wait is for upstream alone.
    """

    def __init__(self, source: Source, step: Step, timeout: float) -> None:
        self._source = source
        self._step = step
        self._timeout = timeout
        self._group = max(1, source.workers)
        self.timings = Timings(self._group)  # from the end of a step to the next end
        self.waits = Timings(self._group)  # of each step for its batch
        self.served = 0  # examples in all passes

    def run(
        self, is_over: Callable[[], bool], upstream: Iterable[Any] | None = None
    ) -> int:
        """Train until `is_over()`, or upstream ends; return the number of steps.

        The first batches, one of each worker, are left out of the timings, as upstream
        starts with them. `upstream` replaces the source's, as a part of it.
        """
        loader = self._source.loader(
            self._source.upstream if upstream is None else upstream
        )
        internals = internals_of(loader)
        skipped = self._group if upstream is None else 1
        start = timing.now()
        device = self._source.arguments.device
        epoch = run_watched(lambda _: iter(loader), self._timeout, device)
        try:  # the first item is there
            steps = self._train(loader, epoch, is_over, skipped, start)
        except TimeoutError:
            raise UpstreamError(
                f"`upstream` has yielded no batch for {self._timeout:g} s; see what it "
                "waits for, or, if it may take longer, give a larger `timeout`."
            ) from None
        except UpstreamError as error:
            cause = error.__cause__
            if cause is None or isinstance(error, SpecError):
                raise
            raise UpstreamError(
                f"`upstream` failed: {describe(cause)}{raised_at(cause)}"
            ) from cause
        finally:  # without waiting for upstream: Ctrl-C and errors are raised at once
            internals.stop()
        run_watched(lambda _: internals.end_epoch(), self._timeout)
        return steps

    def _train(
        self,
        loader: Any,
        epoch: Any,
        is_over: Callable[[], bool],
        skipped: int,
        start: float,
    ) -> int:
        head: list[tuple[float, float, int]] = []
        steps, served = 0, 0
        end, before_s = start, start - timing.now()  # starting counts as waiting
        while not steps or not is_over():
            try:
                batch = epoch.draw(self._timeout)
            except StopIteration:
                if steps < skipped + 2:  # too few: count the start, too
                    for one in head:
                        self._add(*one)
                break
            late_s = self._wait_for(batch)
            self._step.wait(self._step.run(batch))
            now, stats = timing.now(), loader.stats()
            waited_s = stats.next_wait_s - before_s + late_s
            one = (now - end, waited_s, stats.served - served)
            end, before_s, served = now, stats.next_wait_s, stats.served
            steps += 1
            if steps > skipped:
                self._add(*one)
            else:
                head.append(one)
        self.served += served
        return steps

    def _wait_for(self, batch: Any) -> float:
        """Wait for upstream's work on a device; return the seconds."""
        if not self._source.on_device:
            return 0.0
        begin = timing.now()
        for wait in waits_for(batch):
            wait()
        return timing.now() - begin

    def _add(self, seconds: float, waited_s: float, examples: int) -> None:
        self.timings.add(seconds, examples)
        self.waits.add(waited_s)

    def run_part(self, items: Any, count: int, is_over: Callable[[], bool]) -> int:
        """Train on the next `count` items of an iterator; return how many it took."""
        taken = itertools.count()  # goes up as the loader takes an item
        part = itertools.islice(items, count)
        self.run(is_over, map(lambda item, _: item, part, taken))
        return next(taken)


_FIRST = 4  # batches of the first slice; later ones are longer
_SHARE = 1 / 8  # largest share of a phase for a slice to be doubled


class OneShotTimer:
    """Timer of a one-shot iterator, read alone and with the step in turn, in slices.

    Slices grow, so that a short iterator gives slices of both kinds, too. `timings`
    receives the seconds of the slices read alone, `alone` their totals.
    """

    def __init__(self, upstream: UpstreamTimer, items: Any, timings: Timings) -> None:
        self._upstream = upstream
        self._items = items
        self._timings = timings
        self._batches = _FIRST
        self.alone = ReadTotals()

    def begin(self) -> None:
        """Read the first slice, alone, and leave its first item out of the timings."""
        source = self._upstream.source

        def is_over(done: ReadTotals) -> bool:
            return source.has_batch and done.items > _FIRST * source.batch_items

        self._read(is_over, skip=1)

    def take(self, overlap: OverlapTimer, phase: Phase) -> None:
        """Read further slices, together and alone in turn, until the phase is over."""

        def is_over(done: ReadTotals) -> bool:
            return done.items >= count or not phase.has_time

        def is_enough() -> bool:  # the first step of each slice is not timed
            return overlap.timings.count >= 2 and not phase.has_time

        while not self.alone.ended and not (
            phase.is_over(self._timings) and phase.is_over(overlap.timings)
        ):
            count = self._batches * self._upstream.source.batch_items
            before_s = phase.elapsed_s
            taken = overlap.run_part(self._items, count, is_enough)
            if taken < count and phase.has_time:
                self.alone.ended = True
                return
            if is_enough():
                return
            self._read(is_over, skip=0)
            if phase.elapsed_s - before_s < _SHARE * phase.allowed_s:
                self._batches *= 2

    def _read(self, is_over: Callable[[ReadTotals], bool], skip: int) -> None:
        done = self._upstream.read(
            self._timings, is_over, items=self._items, skip=skip, keep=bool(skip)
        )
        self.alone.add(done)

    def check(self, overlap: OverlapTimer, least_s: float) -> None:
        """Raise `UpstreamError` if upstream ended before there were enough timings."""
        alone = self.alone
        enough = self._timings.count >= 2 and overlap.timings.count >= 2
        if enough and not (alone.ended and alone.seconds < least_s):
            return
        raise UpstreamError(
            f"`upstream` gives one epoch only, which ended after {alone.seconds:.2g} s "
            f"and {alone.examples + overlap.served} examples: too soon to measure it "
            "alone and with the step; pass an object whose `__iter__` begins anew (a "
            "list, a DataLoader), or more of it."
        )
