"""Upstream alone: one pass over it, or a part of one, item by item."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from echobuf.analysis.phases import Clock
from echobuf.analysis.reading import Reading
from echobuf.analysis.source import Source, failed
from echobuf.analysis.waiting import Watch, watched

_END = object()


@dataclass
class Pass:
    """What came of a pass.

    Attributes:
        items: that were read.
        examples: in them.
        seconds: that upstream took for them, from `iter(upstream)` on.
        startup_s: of those, until the first item was there.
        ended: whether upstream came to its end.
    """

    items: int = 0
    examples: int = 0
    seconds: float = 0.0
    startup_s: float = 0.0
    ended: bool = False


class Reader:
    """Reads upstream on a thread of its own, as a loader does.

    Args:
        source: what is read.
        clock: seconds.
        timeout: seconds to wait for one item.

    Attributes:
        source: the same.
    """

    def __init__(self, source: Source, clock: Clock, timeout: float) -> None:
        self.source = source
        self._clock = clock
        self._timeout = timeout

    @property
    def group(self) -> int:
        """Items that come at about the same time: one of each worker."""
        return max(1, self.source.workers)

    def read(
        self,
        reading: Reading,
        is_over: Callable[[Pass], bool],
        *,
        items: Any = None,
        skip: int | None = None,
        keep: bool = False,
    ) -> Pass:
        """Reads until it is over, or upstream ends.

        The first items of a pass, one of each worker, are what starting takes. They
        count where the pass has hardly any others.

        Args:
            reading: takes the seconds of each item.
            is_over: called after each item.
            items: an iterator to go on with; begins upstream anew unless given.
            skip: items that starting takes; one of each worker unless told.
            keep: the first items are kept for a batch.

        Raises:
            UpstreamError: it raised, or nothing came for too long.
            SpecError: with `keep`, its first item cannot be stored.
        """

        def work(watch: Watch) -> Pass:
            begin = self._clock()
            rest = self.source.begin() if items is None else items
            return self._read(watch, reading, is_over, rest, begin, skipped, keep)

        skipped = self.group if skip is None else skip

        return watched(work, self._timeout)

    def _read(
        self,
        watch: Watch,
        reading: Reading,
        is_over: Callable[[Pass], bool],
        rest: Any,
        begin: float,
        skipped: int,
        keep: bool,
    ) -> Pass:
        clock, source, done = self._clock, self.source, Pass()
        head: list[tuple[float, int]] = []
        while not watch.stopped:
            try:
                item = next(rest, _END)
            except (Exception, SystemExit) as error:
                raise failed(done.items, error) from error
            seconds = clock() - begin
            if item is _END:
                done.ended = True
                break
            if keep:
                source.keep(item)
            examples = source.examples_in(item)
            if examples:
                watch.beat()
            done.items += 1
            done.examples += examples
            done.seconds += seconds
            if done.items == 1:
                done.startup_s = seconds
            if done.items <= skipped:
                head.append((seconds, examples))
            else:
                reading.add(seconds, examples)
            if is_over(done):
                break
            del item
            begin = clock()
        few = done.ended or reading.count < 2
        if few and done.items < skipped + 2 * self.group:
            for seconds, examples in head:
                reading.add(seconds, examples)
        return done
