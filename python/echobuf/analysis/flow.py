"""How long an epoch takes, pass by pass: filling and draining the window included.

The passes are those of the core's own schedules; upstream and downstream take their
mean times. A batch is drawn when the step before it is done and all records of the
passes that it touches are there; what a pass has used up is free from the draw of its
last batch on. So the times of all batches follow from those at which passes begin.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from fractions import Fraction

from echobuf import _core
from echobuf.analysis import formulas
from echobuf.analysis.arrivals import Arrivals
from echobuf.analysis.steps import Steps
from echobuf.analysis.supply import Supply


@dataclass(frozen=True)
class Pace:
    """What goes through a buffer, and how fast.

    Attributes:
        upstream_s: t_upstream, seconds per fresh example.
        step_s: t_downstream, seconds per example of a batch.
        batch_size: examples of a batch.
        window: of the buffer, in examples.
        max_factor: the largest factor of "auto".
        item: examples that upstream yields at a time.
        startup_s: seconds that the first item takes beyond the time of its examples.
    """

    upstream_s: float
    step_s: float
    batch_size: int
    window: int
    max_factor: int = 8
    item: int = 1
    startup_s: float = 0.0


@dataclass(frozen=True)
class Epoch:
    """What an epoch comes to.

    Attributes:
        seconds: from its beginning to the end of its last step.
        draws: examples served.
    """

    seconds: float
    draws: float


PHASES = 10  # at most, of a fractional factor, whose mean is taken
LONGEST = 64  # windows that are gone through one by one; then it is a straight line
_PASSES = 8_000  # at most about as many in them
_AUTO_PASSES = 16  # by window and echo: one by segment


def epoch(pace: Pace, factor: Fraction | None, count: int) -> Epoch:
    """An epoch of `count` fresh examples; a factor of None is "auto".

    Long epochs are gone through for their first windows; each further example takes
    what those in the later half of these took.
    """
    run = _auto if factor is None else _fixed
    echoes = _echoes(pace, factor)
    windows = int(_PASSES / (echoes * (_AUTO_PASSES if factor is None else 1)))
    if windows < 2:  # what filling and draining add is nothing beside that
        fresh_s = formulas.fresh_s(pace.upstream_s, pace.step_s, echoes)
        return Epoch(pace.startup_s + count * fresh_s, count * echoes)
    windows = min(LONGEST, windows)
    longest = windows * pace.window + count % pace.window
    if count <= longest:
        return run(pace, factor, count)
    half = longest - windows // 2 * pace.window
    upper, lower = (run(pace, factor, n) for n in (longest, half))
    more = (count - longest) / (longest - half)
    return Epoch(
        upper.seconds + more * (upper.seconds - lower.seconds),
        upper.draws + more * (upper.draws - lower.draws),
    )


def _echoes(pace: Pace, factor: Fraction | None) -> float:
    if factor is not None:
        return float(factor)
    ratio = pace.upstream_s / pace.step_s if pace.step_s > 0 else math.inf
    return formulas.effective_factor(ratio, pace.max_factor)


def phases(factor: Fraction) -> list[int]:
    """Return phases of the schedule that stand for those of all epochs."""
    den = factor.denominator
    number = min(den, PHASES)
    return [(2 * i + 1) * den // (2 * number) for i in range(number)]


def _fixed(pace: Pace, factor: Fraction | None, count: int) -> Epoch:
    """Return the mean of several epochs: which examples get an extra use differs."""
    assert factor is not None
    runs = [_fixed_phase(pace, factor, count, phase) for phase in phases(factor)]
    return Epoch(
        sum(run.seconds for run in runs) / len(runs),
        sum(run.draws for run in runs) / len(runs),
    )


def _fixed_phase(pace: Pace, factor: Fraction, count: int, phase: int) -> Epoch:
    ratio = factor.as_integer_ratio()
    passes = _core.fixed_passes(pace.window, *ratio, count, phase)
    capacity = _core.fixed_capacity(pace.window, *ratio)
    arrivals = _arrivals(pace, count, capacity)
    steps = Steps(pace.batch_size, pace.step_s)
    used: deque[tuple[int, int]] = deque()  # last batch of a pass, oldest record after
    for first, length in passes:
        batch = steps.next_batch()
        if steps.drawn:
            used.append((steps.last_batch(), first))
        while used and used[0][0] < batch:
            last, oldest = used.popleft()
            arrivals.give_room(oldest + capacity, steps.begin(last))
        steps.draw(length, arrivals.time(first + length - 1))
    return Epoch(steps.end(), steps.drawn)


def _auto(pace: Pace, factor: Fraction | None, count: int) -> Epoch:
    schedule = _core.AutoSchedule(pace.window, pace.batch_size, pace.max_factor)
    arrivals = _arrivals(pace, count, schedule.capacity)
    steps = Steps(pace.batch_size, pace.step_s)
    supply = Supply(schedule, arrivals, count)
    while supply.next_pass(steps.begin(steps.next_batch())):
        steps.draw(supply.length(), supply.time_s)
    return Epoch(steps.end(), steps.drawn)


def _arrivals(pace: Pace, count: int, capacity: int) -> Arrivals:
    return Arrivals(count, pace.item, pace.upstream_s, capacity, pace.startup_s)
