"""The best fixed factor in hindsight, for the same times of the same upstream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from auto_trial.clock import Run, run_auto, run_fixed
from auto_trial.upstreams import Scenario, Shape, Upstream

WORTHS = (0.25, 0.5, 0.75, 1.0)
"""Values of an echo, where that of a fresh example is 1."""


def factors(largest: int) -> list[Fraction]:
    """Return the factors 1, 1 1/4, 1 1/2, ... to the largest."""
    return [Fraction(quarter, 4) for quarter in range(4, 4 * largest + 1)]


def time_to(run: Run, value: float, worth: float) -> float:
    """Return the time at which a value was reached; infinite if never."""
    values = np.append(0.0, run.value(worth))
    if values[-1] < value:
        return float("inf")
    return float(np.interp(value, values, np.append(0.0, run.times)))


@dataclass
class Trial:
    """An upstream served with "auto", and with each fixed factor.

    Attributes:
        auto: its epochs; one where upstream goes on for ever.
        upstreams: of these.
        slower: for each worth of an echo, auto's time over that of the best fixed
            factor to the same value, less 1; below 0, auto was faster.
        best: that factor.
        same_work: the same against the fixed factor that serves as many draws of as
            many fresh examples.
    """

    auto: list[Run]
    upstreams: list[Upstream]
    slower: dict[float, float]
    best: dict[float, float]
    same_work: float

    @property
    def time(self) -> float:
        """Return the time at which the last step ended."""
        return sum(float(run.times[-1]) for run in self.auto)

    @property
    def factor(self) -> float:
        """Return the effective factor."""
        return _total(self.auto, "draws") / _total(self.auto, "fresh")


def _total(runs: Sequence[Run], of: str) -> float:
    return sum(float(getattr(run, of)[-1]) for run in runs)


def try_out(scenario: Scenario, shape: Shape, seed: int) -> Trial:
    """Run auto and every fixed factor, on the times of a seed."""
    upstreams = scenario.upstreams(seed)
    fresh = None if scenario.epochs else scenario.fresh
    auto = [run_auto(each, shape, fresh) for each in upstreams]
    trial = Trial(auto, upstreams, {}, {}, 0.0)
    own = Fraction(trial.factor).limit_denominator(1000)
    grid = factors(shape.max_factor)
    fixed = {e: [run_fixed(each, shape, e) for each in upstreams] for e in {*grid, own}}
    for worth in WORTHS:
        seconds = {e: _seconds(trial, fixed[e], worth) for e in grid}
        best = min(seconds, key=lambda e: seconds[e])
        trial.best[worth] = float(best)
        trial.slower[worth] = trial.time / seconds[best] - 1
    trial.same_work = trial.time / _seconds(trial, fixed[own], 1.0) - 1
    return trial


def _seconds(trial: Trial, fixed: Iterable[Run], worth: float) -> float:
    """Return the time of fixed factors for the value that auto reached."""
    runs = list(fixed)
    if len(runs) == 1:
        return time_to(runs[0], float(trial.auto[0].value(worth)[-1]), worth)
    value = sum(float(run.value(worth)[-1]) for run in trial.auto)
    theirs = sum(float(run.value(worth)[-1]) for run in runs)
    return sum(float(run.times[-1]) for run in runs) * value / theirs
