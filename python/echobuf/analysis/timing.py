"""Repeated timings with confidence intervals, and the time limits of phases."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from echobuf.analysis.measurements import Estimate

now = time.perf_counter
"""The clock of an analysis, in seconds; tests replace it."""

_MOST_BLOCKS = 64
_PARTS = 4
_FEWEST = 8  # blocks in which a correlation can be seen
_CHANCE = 1.645  # deviations that it exceeds by chance in one case of 20
_MOST_ALIKE = 0.95
_ENOUGH = 16  # measurements before an interval is trusted to be narrow
# Student's t, two-sided 95 %, for 1, 2, ... degrees of freedom; beyond, a series.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


class Timings:
    """Repeated timings, each for a number of examples, with an interval of their mean.

    Successive times are correlated (workers deliver in turns), so the interval is that
    of the means of blocks, which are nearly independent (Law and Kelton's batch means).

    Args:
        group: consecutive times in the first blocks, such as one of each worker.
    """

    def __init__(self, group: int = 1) -> None:
        self._size = group  # times in a block
        self._blocks: list[tuple[float, int]] = []  # seconds, examples
        self._open = (0.0, 0, 0)  # seconds, examples, times
        self.count = 0  # times added

    def add(self, seconds: float, examples: int = 1, times: int = 1) -> None:
        """Add one time, or the sum of several, which stay in one block."""
        total, many, held = self._open
        if not examples:  # the time of an empty batch counts, too
            self._open = (total + seconds, many, held)
            return
        self.count += times
        self._open = total + seconds, many + examples, held + 1
        if held + 1 == self._size:
            self._blocks.append(self._open[:2])
            self._open = (0.0, 0, 0)
            if len(self._blocks) == _MOST_BLOCKS:
                self._merge()

    def _merge(self) -> None:
        pairs = zip(self._blocks[::2], self._blocks[1::2], strict=True)
        self._blocks = [(a + b, m + n) for (a, m), (b, n) in pairs]
        self._size *= 2

    def estimate(self) -> Estimate:
        """Return the mean per example, in seconds, with its 95 % confidence interval.

        With fewer than two blocks the interval is from 0 to twice the mean.
        """
        blocks = self._blocks or [self._open[:2]]
        total, examples = map(sum, zip(*blocks, strict=True))
        if not examples:
            raise ValueError("nothing was measured.")
        mean = total / examples
        half = mean
        if self.has_interval:
            half = _half_width([seconds / many for seconds, many in blocks])
        count = self.count, len(self._blocks)
        return Estimate(mean, max(0.0, mean - half), mean + half, *count)

    def parts(self) -> list[float]:
        """Return the means of the quarters of the run; none with too few blocks."""
        count = len(self._blocks) // _PARTS
        if count < _PARTS:
            return []
        parts = [self._blocks[i * count : (i + 1) * count] for i in range(_PARTS)]
        return [sum(s for s, _ in part) / sum(m for _, m in part) for part in parts]

    @property
    def has_interval(self) -> bool:
        """Return whether there are enough blocks for an interval."""
        return len(self._blocks) >= 2

    def is_narrow(self, interval: float) -> bool:
        """Return whether the half-width is at most `interval` times the mean."""
        if self.count < _ENOUGH or not self.has_interval:
            return False
        estimate = self.estimate()
        return estimate.high - estimate.mean <= interval * estimate.mean


def _half_width(means: list[float]) -> float:
    """Return the half-width of the interval of the mean of two blocks or more."""
    count = len(means)
    off = np.subtract(means, np.mean(means))
    variance = float(off @ off) / (count - 1)
    if variance == 0:
        return 0.0
    freedom = count - 1.0
    # A machine that is slow for a while makes successive blocks alike. Blocks of an
    # autoregressive chain with this correlation are worth so many fewer independent
    # ones; the correlation counts where it is more than chance, less its bias.
    found = float(off[:-1] @ off[1:]) / (freedom * variance)
    if count >= _FEWEST and found > _CHANCE / math.sqrt(count):
        follows = min(found + (1 + 3 * found) / count, _MOST_ALIKE)
        fewer = (1 + follows) / (1 - follows)
        variance *= fewer
        freedom = max(2.0, freedom / fewer)
    return student_t(int(freedom)) * math.sqrt(variance / count)


def student_t(freedom: int) -> float:
    """Return Student's t for a two-sided 95 % interval with `freedom` degrees.

    Three digits are right: from a table, then from Cornish and Fisher's series.
    """
    if freedom <= len(_T):
        return _T[freedom - 1]
    z = NormalDist().inv_cdf(0.975)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


# Each phase has its share of the time that is left, so that later phases use the time
# that earlier ones do not need.
SHARES = {
    "upstream, first pass": 0.30,
    "step": 0.15,
    "upstream, second pass": 0.25,
    "together": 0.25,
    "parts of the DataLoader": 0.05,
}
_LEAST = 1 / 60  # least share of the whole time for a phase, however narrow
_PATIENCE = 2.0  # longest extension of a phase that has no interval yet


@dataclass(frozen=True)
class Phase:
    """Time limit of one phase of the analysis."""

    begin_s: float
    allowed_s: float
    least_s: float
    interval: float  # relative half-width at which it stops

    @property
    def elapsed_s(self) -> float:
        """Return seconds since it began."""
        return now() - self.begin_s

    @property
    def has_time(self) -> bool:
        """Return whether some of its time is left."""
        return self.elapsed_s < self.allowed_s

    def is_over(self, timings: Timings) -> bool:
        """Return whether the interval is narrow enough, or the time is used up.

        Without an interval the phase goes on for a while.
        """
        if timings.count < 2:
            return False
        elapsed = self.elapsed_s
        if elapsed >= self.allowed_s:
            return timings.has_interval or elapsed >= _PATIENCE * self.allowed_s
        return elapsed >= self.least_s and timings.is_narrow(self.interval)


class Budget:
    """The seconds of an analysis, shared among its phases.

    `interval` is the relative half-width at which a phase stops; `progress` is called
    with the name of each phase as it begins.
    """

    def __init__(
        self,
        seconds: float,
        interval: float,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self._seconds = seconds
        self._interval = interval
        self._progress = progress
        self._begin = now()
        self._left = dict(SHARES)

    @property
    def elapsed_s(self) -> float:
        """Return the seconds since this object was made."""
        return now() - self._begin

    def begin(self, name: str) -> Phase:
        """Begin a phase of `SHARES`; the phases before it are over."""
        if self._progress is not None:
            self._progress(name)
        while next(iter(self._left)) != name:
            del self._left[next(iter(self._left))]
        left = max(0.0, self._seconds - self.elapsed_s)
        allowed = left * self._left[name] / sum(self._left.values())
        del self._left[name]
        return Phase(now(), allowed, self._seconds * _LEAST, self._interval)
