"""An upstream that gives one epoch: alone and together, by turns, on one iterator."""

from __future__ import annotations

from typing import Any

from echobuf.analysis.passes import Pass, Reader
from echobuf.analysis.phases import Phase
from echobuf.analysis.reading import Reading
from echobuf.analysis.together import Together
from echobuf.errors import UpstreamError

_FIRST = 4  # batches of a slice; later ones are longer
_SHARE = 1 / 8  # of the time of a phase: no slice is made to take longer


class Turns:
    """Reads an iterator in slices that grow, so that a short one is used well.

    Args:
        reader: of upstream.
        items: the iterator.
        reading: of upstream alone.

    Attributes:
        alone: what came of the slices read alone, added up.
    """

    def __init__(self, reader: Reader, items: Any, reading: Reading) -> None:
        self._reader = reader
        self._items = items
        self._reading = reading
        self._batches = _FIRST
        self.alone = Pass()

    def begin(self) -> None:
        """The first slice, alone; its first item is what starting takes."""
        source = self._reader.source

        def is_over(done: Pass) -> bool:
            return source.has_batch and done.items > _FIRST * source.batch_items

        self._add(
            self._reader.read(
                self._reading, is_over, items=self._items, skip=1, keep=True
            )
        )

    def take(self, together: Together, phase: Phase) -> None:
        """Goes on, together and alone by turns, until it is over or upstream ends."""

        def is_over(done: Pass) -> bool:
            return done.items >= count or not phase.has_time

        while not self.alone.ended and not (
            phase.is_over(self._reading) and phase.is_over(together.reading)
        ):
            count = self._batches * self._reader.source.batch_items
            before_s = phase.elapsed_s
            taken = together.run_part(self._items, count, lambda: not phase.has_time)
            if taken < count and phase.has_time:
                self.alone.ended = True
                return
            if not phase.has_time and together.reading.count >= 2:
                return
            self._add(
                self._reader.read(self._reading, is_over, items=self._items, skip=0)
            )
            if phase.elapsed_s - before_s < _SHARE * phase.allowed_s:
                self._batches *= 2

    def _add(self, done: Pass) -> None:
        alone = self.alone
        alone.startup_s = alone.startup_s or done.startup_s
        alone.items += done.items
        alone.examples += done.examples
        alone.seconds += done.seconds
        alone.ended = done.ended


def check_long_enough(
    alone: Pass, reading: Reading, together: Together, least_s: float
) -> None:
    """Raises `UpstreamError` if upstream ended before anything could be told."""
    enough = reading.count >= 2 and together.reading.count >= 2
    if enough and not (alone.ended and alone.seconds < least_s):
        return
    raise UpstreamError(
        f"`upstream` gives one epoch only, which ended after {alone.seconds:.2g} s and "
        f"{alone.examples + together.served} examples: too soon to measure it alone "
        "and with the step; pass an object whose `__iter__` begins anew (a list, a "
        "DataLoader), or more of it."
    )
