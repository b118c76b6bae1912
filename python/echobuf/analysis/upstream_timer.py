"""Timing of upstream alone, item by item, on a thread that a timeout watches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from echobuf.analysis import clock
from echobuf.analysis.source import Source, failed
from echobuf.analysis.timings import Phase, Timings
from echobuf.errors import UpstreamError

if TYPE_CHECKING:
    from echobuf.analysis.overlap import OverlapTimer

_END = object()


@dataclass
class ReadTotals:
    """Totals of a read of upstream.

    Attributes:
        items: items read.
        examples: examples in these items.
        seconds: seconds that upstream took for them, from `iter(upstream)` on.
        startup_s: seconds until the first item, included in `seconds`.
        ended: whether upstream ended.
    """

    items: int = 0
    examples: int = 0
    seconds: float = 0.0
    startup_s: float = 0.0
    ended: bool = False


class UpstreamTimer:
    """Timer of upstream alone, read on a background thread as a loader does.

    Args:
        source: upstream.
        timeout: seconds to wait for one item.

    Attributes:
        source: upstream, as given.
    """

    def __init__(self, source: Source, timeout: float) -> None:
        self.source = source
        self._timeout = timeout

    @property
    def group(self) -> int:
        """Return the items that arrive at about the same time: one of each worker."""
        return max(1, self.source.workers)

    def read(
        self,
        timings: Timings,
        is_over: Callable[[ReadTotals], bool],
        *,
        items: Any = None,
        skip: int | None = None,
        keep: bool = False,
    ) -> ReadTotals:
        """Read items until `is_over`, or upstream ends.

        The first items, one of each worker, are left out of the timings, as upstream
        starts with them. They count where there are hardly any others.

        Args:
            timings: receives the seconds of each item.
            is_over: called with the totals after each item.
            items: an iterator to continue; by default a new one of upstream.
            skip: first items to leave out; by default one of each worker.
            keep: whether the source keeps the first items for a batch.

        Raises:
            UpstreamError: upstream raised, or yielded nothing for too long.
            SpecError: with `keep`, the first item cannot be stored.
        """

        def work(watched: WatchedItems) -> ReadTotals:
            begin = clock.now()
            rest = self.source.begin() if items is None else items
            return self._read(watched, timings, is_over, rest, begin, skipped, keep)

        skipped = self.group if skip is None else skip

        return run_watched(work, self._timeout)

    def _read(
        self,
        watched: WatchedItems,
        timings: Timings,
        is_over: Callable[[ReadTotals], bool],
        rest: Any,
        begin: float,
        skipped: int,
        keep: bool,
    ) -> ReadTotals:
        source, done = self.source, ReadTotals()
        head: list[tuple[float, int]] = []
        while not watched.stopped:
            try:
                item = next(rest, _END)
            except (Exception, SystemExit) as error:
                raise failed(done.items, error) from error
            seconds = clock.now() - begin
            if item is _END:
                done.ended = True
                break
            if keep:
                source.keep(item)
            examples = source.examples_in(item)
            if examples:
                watched.tick()
            done.items += 1
            done.examples += examples
            done.seconds += seconds
            if done.items == 1:
                done.startup_s = seconds
            if done.items <= skipped:
                head.append((seconds, examples))
            else:
                timings.add(seconds, examples)
            if is_over(done):
                break
            del item
            begin = clock.now()
        few = done.ended or timings.count < 2
        if few and done.items < skipped + 2 * self.group:
            for seconds, examples in head:
                timings.add(seconds, examples)
        return done


T = TypeVar("T")

_SLICE_S = 0.05  # interval at which Ctrl-C is handled


class WatchedItems:
    """Count and time of the items of a background thread, and the request to stop it.

    Attributes:
        stopped: whether the thread must end when upstream's current call returns.
        count: number of items.
    """

    def __init__(self) -> None:
        self.stopped = False
        self.count = 0
        self._last = time.monotonic()

    def tick(self) -> None:
        """Count an item."""
        self.count += 1
        self._last = time.monotonic()

    def silent_s(self) -> float:
        """Return the seconds since the last item."""
        return time.monotonic() - self._last


def run_watched(work: Callable[[WatchedItems], T], timeout: float) -> T:
    """Run `work` on a background thread, as a loader does, while it makes progress.

    Args:
        work: calls `watched.tick()` for each item, and ends once
            `watched.stopped`.
        timeout: longest time between two items, in seconds.

    Raises:
        UpstreamError: there was no item for longer than the timeout. The thread is
            left behind: it ends when upstream's current call returns.
    """
    watched, outcome = WatchedItems(), Future[T]()

    def run() -> None:
        try:
            outcome.set_result(work(watched))
        except BaseException as error:
            outcome.set_exception(error)

    thread = threading.Thread(target=run, name="echobuf-analyze", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_SLICE_S)
            if watched.silent_s() > timeout and thread.is_alive():
                raise _silent(watched.count, timeout)
    except BaseException:
        watched.stopped = True
        raise
    return outcome.result()


def _silent(count: int, timeout: float) -> UpstreamError:
    after = f"after {count} items" if count else "at all"
    return UpstreamError(
        f"`upstream` has yielded nothing {after} for {timeout:g} s; see what it waits "
        "for, or, if an item may take longer, give a larger `timeout`."
    )


_FIRST = 4  # batches of the first slice; later ones are longer
_SHARE = 1 / 8  # largest share of a phase for a slice to be doubled


class OneShotTimer:
    """Timer of a one-shot iterator, read alone and with the step in turn, in slices.

    Slices grow, so that a short iterator gives slices of both kinds, too.

    Args:
        upstream: timer of upstream alone.
        items: the iterator.
        timings: receives the seconds of the slices read alone.

    Attributes:
        alone: totals of the slices read alone.
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

        self._add(
            self._upstream.read(
                self._timings, is_over, items=self._items, skip=1, keep=True
            )
        )

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
            if not phase.has_time and overlap.timings.count >= 2:
                return
            self._add(
                self._upstream.read(self._timings, is_over, items=self._items, skip=0)
            )
            if phase.elapsed_s - before_s < _SHARE * phase.allowed_s:
                self._batches *= 2

    def _add(self, done: ReadTotals) -> None:
        alone = self.alone
        alone.startup_s = alone.startup_s or done.startup_s
        alone.items += done.items
        alone.examples += done.examples
        alone.seconds += done.seconds
        alone.ended = done.ended


def check_long_enough(
    alone: ReadTotals, timings: Timings, overlap: OverlapTimer, least_s: float
) -> None:
    """Raise `UpstreamError` if upstream ended before there were enough timings."""
    enough = timings.count >= 2 and overlap.timings.count >= 2
    if enough and not (alone.ended and alone.seconds < least_s):
        return
    raise UpstreamError(
        f"`upstream` gives one epoch only, which ended after {alone.seconds:.2g} s and "
        f"{alone.examples + overlap.served} examples: too soon to measure it alone "
        "and with the step; pass an object whose `__iter__` begins anew (a list, a "
        "DataLoader), or more of it."
    )
