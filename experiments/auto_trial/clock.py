"""Upstream, ring and downstream on a virtual clock: exact, and nothing sleeps.

Downstream takes a batch as soon as it is there, and then works on it. What a batch is
drawn from, and when, is decided by the schedules of `echobuf._core` themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from auto_trial.ring import Ring
from auto_trial.upstreams import Shape, Upstream
from echobuf import _core

Array = npt.NDArray[np.float64]


@dataclass
class Pass:
    """A pass that began at `time`, over `count` records from `first` on.

    `committed` fresh examples had arrived by then.
    """

    time: float
    first: int
    count: int
    committed: int


@dataclass
class Run:
    """Result of an upstream's run.

    Attributes:
        times: when downstream had done with each batch.
        draws: draws up to then.
        fresh: fresh examples among them, on average over the order within a pass.
        waited: time downstream waited, that for the first batch included.
        first_wait: that for the first batch.
        held_back: time upstream waited for room.
    """

    times: Array
    draws: Array
    fresh: Array
    waited: float
    first_wait: float
    held_back: float
    passes: list[Pass] = field(default_factory=list)

    def value(self, worth: float) -> Array:
        """Return the value of fresh examples, and of echoes at `worth` of one."""
        return self.fresh + worth * (self.draws - self.fresh)


class _AutoPasses:
    """The passes of `factor="auto"`, told at each one's end how the ring stands."""

    def __init__(self, upstream: Upstream, shape: Shape) -> None:
        self.schedule = _core.AutoSchedule(
            shape.window, shape.batch_size, shape.max_factor
        )
        self.ring = Ring(upstream, self.schedule.capacity)
        self.passes: list[Pass] = []
        self._first = max(-(-shape.window // 4), shape.batch_size)

    def begin(self, now: float) -> float | None:
        """Begin a pass; return its time, or None after the last one."""
        while True:
            committed = self.ring.committed(now)
            state = self.schedule.advance(
                committed,
                held_back=self.ring.held_back,
                ended=committed == self.ring.n,
            )
            self.ring.held_back = False
            self.ring.release(self.schedule.start(self.schedule.lo), now)
            if state == "finished":
                return None
            if state == "pass":
                break
            need = self.schedule.start(self.schedule.hi + 1)
            now = max(now, self.ring.when(need if self.passes else self._first))
        first = self.schedule.start(self.schedule.lo)
        end = min(self.schedule.start(self.schedule.hi), committed)
        self.passes.append(Pass(now, first, end - first, committed))
        return now


def run_auto(upstream: Upstream, shape: Shape, fresh: int | None = None) -> Run:
    """Run with `factor="auto"`, until `fresh` examples are served, or all."""
    side = _AutoPasses(upstream, shape)
    waits: list[float] = []
    rows: list[int] = []
    ends: list[float] = []
    now = 0.0
    left = 0
    last: Pass | None = None
    while fresh is None or last is None or last.first + last.count < fresh or left:
        called, batch = now, 0
        while batch < shape.batch_size:
            if not left:
                begun = side.begin(now)
                if begun is None:
                    break
                now = begun
                last = side.passes[-1]
                left = last.count
            taken = min(left, shape.batch_size - batch)
            batch += taken
            left -= taken
        if not batch:
            break
        waits.append(now - called)
        now += batch
        rows.append(batch)
        ends.append(now)
    return _run(ends, np.cumsum(rows), waits, side.passes, side.ring)


def run_fixed(upstream: Upstream, shape: Shape, factor: Fraction) -> Run:
    """Run a fixed factor, in phase 0 of its schedule, until all is served."""
    ratio = factor.numerator, factor.denominator
    n = len(upstream.times)
    ring = Ring(upstream, _core.fixed_capacity(shape.window, *ratio))
    spans = np.array(_core.fixed_passes(shape.window, *ratio, n))
    done = np.cumsum(spans[:, 1])
    draws = np.append(np.arange(shape.batch_size, done[-1], shape.batch_size), done[-1])
    # A batch is drawn in one go: once all of its passes' records are there.
    newest = spans[np.searchsorted(done, draws), :].sum(axis=1)
    oldest = np.append(spans[:, 0], n)[np.searchsorted(done, draws, side="right")]
    waits: list[float] = []
    ends: list[float] = []
    now = 0.0
    rows = np.diff(draws, prepend=0)
    for need, give, batch in zip(
        newest.tolist(), oldest.tolist(), rows.tolist(), strict=True
    ):
        called = now
        now = max(now, ring.when(need))
        waits.append(now - called)
        ring.release(give, now)
        now += batch
        ends.append(now)
    begun = np.interp(done - spans[:, 1], np.append(0, draws), np.append(0.0, ends))
    passes = [
        Pass(time, *span, sum(span))
        for time, span in zip(begun.tolist(), spans.tolist(), strict=True)
    ]
    return _run(ends, draws, waits, passes, ring)


def _run(
    ends: list[float],
    draws: npt.NDArray[np.int64],
    waits: list[float],
    passes: list[Pass],
    ring: Ring,
) -> Run:
    done = np.cumsum([0, *(p.count for p in passes)])
    served = [0, *(p.first + p.count for p in passes)]
    return Run(
        times=np.array(ends),
        draws=draws.astype(float),
        fresh=np.interp(draws, done, served),
        waited=sum(waits),
        first_wait=waits[0],
        held_back=ring.late,
        passes=passes,
    )
