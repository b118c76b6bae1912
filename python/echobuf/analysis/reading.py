"""Interval estimates: what was measured until now, and how well that is known."""

from __future__ import annotations

import itertools
import math
from statistics import NormalDist

from echobuf.analysis.measurements import Estimate

_MOST_BLOCKS = 64
_PARTS = 4
_FEWEST = 8  # blocks in which a correlation can be seen
_CHANCE = 1.645  # deviations that it exceeds by chance in one case of 20
_MOST_ALIKE = 0.95
_ENOUGH = 16  # measurements before an interval is trusted to be narrow
# Student's t, two-sided 95 %, for 1, 2, ... degrees of freedom; beyond, a series.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


class Reading:
    """Times of something that is repeated, each for a number of examples.

    Successive times depend on each other (workers deliver in turns), so the interval
    is that of the means of blocks, which are not (Law and Kelton's batch means). Keeps
    at most 64 blocks, however long it runs.

    Args:
        group: times that belong together, as those of the workers of a DataLoader.
    """

    def __init__(self, group: int = 1) -> None:
        self._size = group  # times in a block
        self._blocks: list[tuple[float, int]] = []  # seconds, examples
        self._open = (0.0, 0, 0)  # seconds, examples, times
        self.count = 0

    def add(self, seconds: float, examples: int = 1, times: int = 1) -> None:
        """One time; or the sum of several, which count as one where blocks are cut."""
        total, many, held = self._open
        if not examples:  # an empty batch took its time all the same
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
        """The mean per example, in seconds, with its 95 % confidence interval.

        With fewer than two blocks nothing is known but the mean: the interval is then
        from 0 to twice the mean.

        Raises:
            ValueError: nothing was added.
        """
        blocks = self._blocks
        total = sum(seconds for seconds, _ in blocks)
        examples = sum(many for _, many in blocks)
        if not examples:  # not one whole block
            total, examples, _ = self._open
        if not examples:
            raise ValueError("nothing was measured.")
        mean = total / examples
        half = _half_width([a / m for a, m in blocks], mean)
        count = self.count, len(blocks)
        return Estimate(mean, max(0.0, mean - half), mean + half, *count)

    def parts(self) -> list[float]:
        """The means per example, in seconds, of the quarters of the time.

        None where there are too few blocks.
        """
        count = len(self._blocks) // _PARTS
        if count < _PARTS:
            return []
        parts = [self._blocks[i * count : (i + 1) * count] for i in range(_PARTS)]
        return [sum(s for s, _ in part) / sum(m for _, m in part) for part in parts]

    @property
    def has_interval(self) -> bool:
        """Whether it says how well the mean is known."""
        return len(self._blocks) >= 2

    def is_narrow(self, interval: float) -> bool:
        """Whether the half-width is at most that share of the mean."""
        if self.count < _ENOUGH or not self.has_interval:
            return False
        estimate = self.estimate()
        return estimate.high - estimate.mean <= interval * estimate.mean


def _half_width(means: list[float], mean: float) -> float:
    count = len(means)
    if count < 2:
        return mean
    centre = sum(means) / count
    variance = sum((each - centre) ** 2 for each in means) / (count - 1)
    if variance == 0:
        return 0.0
    freedom = float(count - 1)
    if (follows := _correlation(means, centre, variance)) > 0:
        # As of so many fewer independent ones: of a chain in which each block follows
        # the last with that correlation.
        fewer = (1 + follows) / (1 - follows)
        variance *= fewer
        freedom = max(2.0, freedom / fewer)
    return student_t(int(freedom)) * math.sqrt(variance / count)


def _correlation(means: list[float], centre: float, variance: float) -> float:
    """How much a block follows the one before it; 0 if that may be chance.

    A machine that is slow for a while makes blocks alike that come after one another,
    and the interval of independent ones would be too narrow.
    """
    count = len(means)
    if count < _FEWEST:
        return 0.0
    pairs = itertools.pairwise(means)
    found = sum((a - centre) * (b - centre) for a, b in pairs)
    found /= (count - 1) * variance
    if not found > _CHANCE / math.sqrt(count):
        return 0.0
    return min(found + (1 + 3 * found) / count, _MOST_ALIKE)  # less its bias


def student_t(freedom: int) -> float:
    """Student's t for a two-sided 95 % interval, with that many degrees of freedom.

    To three digits: a table, then the series of Cornish and Fisher.
    """
    if freedom <= len(_T):
        return _T[freedom - 1]
    z = NormalDist().inv_cdf(0.975)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
