"""How long an epoch takes: the passes one after another, filling and draining included.

The passes are those of the core's own schedule; upstream and downstream take their mean
times. A batch is drawn when the step before it is done and all records of the passes
that it touches are there; what a pass has used up is free from the draw of its last
batch on. With that, the times of all batches follow from those of the first batch of
each pass.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from fractions import Fraction

from echobuf import _core
from echobuf.analysis.arrivals import Arrivals


@dataclass(frozen=True)
class Pace:
    """What goes through a buffer, and how fast.

    Attributes:
        upstream_s: t_upstream, seconds per fresh example.
        step_s: t_downstream, seconds per example of a batch.
        batch_size: examples of a batch.
        window: of the buffer, in examples.
        item: examples that upstream yields at a time.
    """

    upstream_s: float
    step_s: float
    batch_size: int
    window: int
    item: int = 1


_LONGEST = 64  # windows that are gone through one by one; then it is a straight line


def epoch_s(pace: Pace, factor: Fraction, count: int) -> float:
    """Seconds for an epoch of `count` fresh examples with a fixed factor.

    Long epochs are gone through for their first windows; each further window takes what
    the later half of these took.
    """
    longest = _LONGEST * pace.window + count % pace.window
    if count <= longest:
        return _run(pace, factor, count)
    shorter = longest - _LONGEST // 2 * pace.window
    whole, half = (_run(pace, factor, n) for n in (longest, shorter))
    return whole + (count - longest) * (whole - half) / (longest - shorter)


def draws(factor: Fraction, window: int, count: int) -> int:
    """Examples that an epoch serves."""
    return _core.fixed_total_draws(window, *factor.as_integer_ratio(), count)


def _run(pace: Pace, factor: Fraction, count: int) -> float:
    ratio = factor.as_integer_ratio()
    passes = _core.fixed_passes(pace.window, *ratio, count)
    capacity = _core.fixed_capacity(pace.window, *ratio)
    arrivals = Arrivals(count, pace.item, pace.upstream_s, capacity)
    steps = _Steps(pace.batch_size, pace.step_s)
    used: deque[tuple[int, int]] = deque()  # last batch of a pass, room behind it
    for first, length in passes:
        batch = steps.next_batch()
        if used:  # the pass before has used up what lies before this one
            used[-1] = (used[-1][0], first + capacity)
        while used and used[0][0] < batch:
            last, limit = used.popleft()
            arrivals.give_room(limit, steps.begin(last))
        steps.draw(length, arrivals.time(first + length - 1))
        used.append((steps.last_batch(), 0))
    return steps.end()


class _Steps:
    """The steps, of batches that are numbered; of which one is known when it began."""

    def __init__(self, batch_size: int, step_s: float) -> None:
        self._size = batch_size
        self._step_s = step_s
        self._drawn = 0
        self._batch = 0
        self._begin = 0.0

    def next_batch(self) -> int:
        """The batch that the next draw is in."""
        return self._drawn // self._size

    def last_batch(self) -> int:
        """The batch that the last draw was in."""
        return (self._drawn - 1) // self._size

    def begin(self, batch: int) -> float:
        """When a batch begins that nothing but the steps before it holds up."""
        return self._begin + (batch - self._batch) * self._size * self._step_s

    def draw(self, length: int, there_s: float) -> None:
        """Draws a pass, all records of which are there from `there_s` on."""
        batch = self.next_batch()
        self._begin = max(self.begin(batch), there_s)
        self._batch = batch
        self._drawn += length

    def end(self) -> float:
        """When the step of the last batch, which may be shorter, is done."""
        return self._begin + (self._drawn - self._batch * self._size) * self._step_s
