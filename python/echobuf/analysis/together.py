"""Upstream and the step at the same time: a loader that does not echo."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from echobuf.analysis.phases import Clock
from echobuf.analysis.reading import Reading
from echobuf.analysis.source import Source, at, length_in
from echobuf.analysis.step import Step
from echobuf.analysis.waiting import Watch, watched
from echobuf.describe_error import describe
from echobuf.errors import SpecError, UpstreamError
from echobuf.loader import EchoLoader


class Together:
    """Runs the step on what a loader serves, with e = 1 and a batch ahead.

    The device is waited for after each step, so that what the step then waits for is
    upstream alone.

    Args:
        source: upstream.
        step: on the caller's thread.
        clock: seconds.
        timeout: seconds to wait for a batch.
    """

    def __init__(
        self, source: Source, step: Step, clock: Clock, timeout: float
    ) -> None:
        self._source = source
        self._step = step
        self._clock = clock
        self._timeout = timeout
        group = max(1, source.workers)
        self.reading = Reading(group)
        self.waits = Reading(group)
        self.served = 0  # examples, in all passes

    def run(
        self, is_over: Callable[[], bool], upstream: Iterable[Any] | None = None
    ) -> int:
        """Goes on until it is over, or upstream ends; how many steps it made.

        From the end of one step to that of the next; the first batches, one of each
        worker, are what starting takes.

        Args:
            is_over: called after each step.
            upstream: in place of the source's, a part of it.

        Raises:
            UpstreamError: it raised, or nothing came for too long.
            StepError: the step raised.
        """
        whole = self._source.upstream if upstream is None else upstream
        loader = self._source.loader(whole)
        skipped = max(1, self._source.workers) if upstream is None else 1

        def begin(_: Watch) -> Any:
            return iter(loader)

        start = self._clock()
        epoch = watched(begin, self._timeout)  # the first item is there
        try:
            steps = self._run(loader, epoch, is_over, skipped, start)
        except TimeoutError:
            raise UpstreamError(
                f"`upstream` has yielded no batch for {self._timeout:g} s; see what it "
                "waits for, or, if it may take longer, give a larger `timeout`."
            ) from None
        except UpstreamError as error:
            raise _told(error) from error.__cause__
        finally:  # and nobody waits for it: Ctrl-C, and errors, come out at once
            loader._epochs.stop()
        watched(lambda _: loader._end_current(), self._timeout)
        return steps

    def _run(
        self,
        loader: EchoLoader,
        epoch: Any,
        is_over: Callable[[], bool],
        skipped: int,
        start: float,
    ) -> int:
        clock, steps = self._clock, 0
        end, before_s = start, start - clock()  # beginning is waiting, too
        head: list[tuple[float, float, int]] = []
        while True:
            try:
                batch = epoch.draw(self._timeout)
            except StopIteration:
                if steps < skipped + 2:  # there is hardly anything but the start
                    for one in head:
                        self._add(*one)
                return steps
            self._step.wait(self._step.run(batch))
            now, waited_s = clock(), loader.stats().next_wait_s
            steps += 1
            examples = length_in(batch)
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
        self.reading.add(seconds, examples)
        self.waits.add(waited_s)

    def run_part(self, items: Any, count: int, is_over: Callable[[], bool]) -> int:
        """The same on the next `count` items of an iterator; how many it took."""
        part = _Part(items, count)
        self.run(is_over, part)
        return part.taken


class _Part:
    """The next items of an iterator.

    Attributes:
        taken: how many there have been.
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


def _told(error: UpstreamError) -> UpstreamError:
    cause = error.__cause__
    if cause is None or isinstance(error, SpecError):
        return error
    return UpstreamError(f"`upstream` failed: {describe(cause)}{at(cause)}")
