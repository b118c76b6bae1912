"""Timing of upstream and step together, through a loader that does not echo."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from echobuf.analysis import clock
from echobuf.analysis.source import Source, raised_at
from echobuf.analysis.step import Step
from echobuf.analysis.timings import Timings
from echobuf.analysis.upstream_timer import WatchedItems, run_watched
from echobuf.errors import SpecError, UpstreamError, describe
from echobuf.loader import EchoLoader
from echobuf.loader.loader import internals_of


class OverlapTimer:
    """Timer of training on a loader's batches, with e = 1 and one batch ahead.

    Waits for the device after each step, so that the next wait is for upstream alone.

    Args:
        source: upstream.
        step: runs on the caller's thread.
        timeout: seconds to wait for a batch.

    Attributes:
        timings: seconds from the end of one step to the end of the next, by example.
        waits: seconds that each step waited for its batch.
        served: examples in all passes.
    """

    def __init__(self, source: Source, step: Step, timeout: float) -> None:
        self._source = source
        self._step = step
        self._timeout = timeout
        group = max(1, source.workers)
        self.timings = Timings(group)
        self.waits = Timings(group)
        self.served = 0  # examples, in all passes

    def run(
        self, is_over: Callable[[], bool], upstream: Iterable[Any] | None = None
    ) -> int:
        """Train until `is_over()`, or upstream ends; return the number of steps.

        Times are taken from the end of one step to the end of the next. The first
        batches, one of each worker, are left out, as upstream starts with them.

        Args:
            is_over: called after each step.
            upstream: replaces the source's upstream, as a part of it.

        Raises:
            UpstreamError: upstream raised, or yielded nothing for too long.
            StepError: the step raised.
        """
        whole = self._source.upstream if upstream is None else upstream
        loader = self._source.loader(whole)
        internals = internals_of(loader)
        skipped = max(1, self._source.workers) if upstream is None else 1

        def begin(_: WatchedItems) -> Any:
            return iter(loader)

        start = clock.now()
        epoch = run_watched(begin, self._timeout)  # the first item is there
        try:
            steps = self._run(loader, epoch, is_over, skipped, start)
        except TimeoutError:
            raise UpstreamError(
                f"`upstream` has yielded no batch for {self._timeout:g} s; see what it "
                "waits for, or, if it may take longer, give a larger `timeout`."
            ) from None
        except UpstreamError as error:
            raise _in_own_words(error) from error.__cause__
        finally:  # without waiting for upstream: Ctrl-C and errors are raised at once
            internals.stop()
        run_watched(lambda _: internals.end_epoch(), self._timeout)
        return steps

    def _run(
        self,
        loader: EchoLoader,
        epoch: Any,
        is_over: Callable[[], bool],
        skipped: int,
        start: float,
    ) -> int:
        steps, served = 0, 0
        end, before_s = start, start - clock.now()  # starting counts as waiting
        head: list[tuple[float, float, int]] = []
        while True:
            try:
                batch = epoch.draw(self._timeout)
            except StopIteration:
                if steps < skipped + 2:  # too few: count the start, too
                    for one in head:
                        self._add(*one)
                return steps
            self._step.wait(self._step.run(batch))
            now, stats = clock.now(), loader.stats()
            waited_s = stats.next_wait_s
            steps += 1
            examples = stats.served - served
            served = stats.served
            self.served += examples
            one = (now - end, waited_s - before_s, examples)
            if steps > skipped:
                self._add(*one)
            else:
                head.append(one)
            end, before_s = now, waited_s
            if is_over():
                return steps

    def _add(self, seconds: float, waited_s: float, examples: int) -> None:
        self.timings.add(seconds, examples)
        self.waits.add(waited_s)

    def run_part(self, items: Any, count: int, is_over: Callable[[], bool]) -> int:
        """Train on the next `count` items of an iterator; return how many it took."""
        part = _Part(items, count)
        self.run(is_over, part)
        return part.taken


class _Part:
    """Iterator over the next `count` items of another.

    Attributes:
        taken: number of items so far.
    """

    def __init__(self, items: Any, count: int) -> None:
        self._items = items
        self._count = count
        self.taken = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.taken >= self._count:
            raise StopIteration
        item = next(self._items)
        self.taken += 1
        return item


def _in_own_words(error: UpstreamError) -> UpstreamError:
    cause = error.__cause__
    if cause is None or isinstance(error, SpecError):
        return error
    return UpstreamError(f"`upstream` failed: {describe(cause)}{raised_at(cause)}")
