"""The learning rate of each condition, and the runs with it."""

from __future__ import annotations

import math
import statistics
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fresh.conditions import Condition
from fresh.run import Run

__all__ = ["CUT", "SEEDS", "TUNING_SEEDS", "Search", "Tuned", "median", "rate_of"]

SEEDS = range(5)
TUNING_SEEDS = range(100, 102)
CUT = 1.3  # of the best median so far: then a run that tunes is cut off
_PATIENCE = 2.0  # of the median without echoing: then any other run is cut off
_MOST_EXTENSIONS = 5

Counts = list[int | None]


def median(counts: Iterable[int | None]) -> float:
    """Of counts, those that missed the target being infinite."""
    return statistics.median(math.inf if n is None else n for n in counts)


def rate_of(fifths: int) -> float:
    """The learning rate so many fifths of a decade from 1, to two digits."""
    return float(f"{10 ** (fifths / 5):.2g}")


@dataclass(frozen=True)
class Tuned:
    """What came out of a condition.

    Attributes:
        condition: it.
        fifths: its learning rate, in fifths of a decade.
        tried: fresh examples of the runs that tuned, by rate in fifths of a decade.
        fresh: fresh examples of the runs with the best rate; empty: it was not tried.
    """

    condition: Condition
    fifths: int
    tried: dict[int, Counts]
    fresh: Counts

    @property
    def median(self) -> float:
        return median(self.fresh) if self.fresh else math.inf


@dataclass
class Search:
    """Tunes the conditions of a workload.

    Attributes:
        workload: its name.
        rates: to begin with, in fifths of a decade.
        most_fresh: the limit of runs without echoing.
        count: fresh examples that a run needs; None if it missed the target.
        device: of the runs.
        width: of the models.
    """

    workload: str
    rates: range
    most_fresh: int
    count: Callable[[Run], int | None]
    device: str = "cpu"
    width: int = 1
    _done: dict[Condition, Tuned] = field(default_factory=dict)
    _locks: dict[Condition, threading.Lock] = field(default_factory=dict)

    def of(self, condition: Condition) -> Tuned:
        """What came out of a condition, and first of those that it is tuned after."""
        with self._locks.setdefault(condition, threading.Lock()):
            if condition not in self._done:
                self._done[condition] = self._tune(condition)
            return self._done[condition]

    def _tune(self, condition: Condition) -> Tuned:
        echoing = condition != condition.plain
        # Echoing that needs more than no echoing does is of no use.
        bound = self.of(condition.plain).median if echoing else math.inf
        if condition.near is None:
            middle = self.rates[len(self.rates) // 2]
            rates = sorted(self.rates, key=lambda rate: abs(rate - middle))
        else:
            near = self.of(condition.near)
            if near.condition.factor < condition.factor and near.median > bound:
                return Tuned(condition, near.fifths, {}, [])
            rates = [near.fifths, near.fifths - 1, near.fifths + 1]
        tried: dict[int, Counts] = {}
        for rate in rates:
            tried[rate] = self._try(condition, rate, tried, bound)
        for _ in range(_MOST_EXTENSIONS):
            best = _best(tried)
            further = best - 1 if best == min(tried) else best + 1
            if further in tried:
                break
            tried[further] = self._try(condition, further, tried, bound)
        best = _best(tried)
        limit = min(self.most_fresh, _PATIENCE * bound)
        runs = [self._run(condition, best, seed, limit) for seed in SEEDS]
        return Tuned(condition, best, tried, [self.count(run) for run in runs])

    def _try(
        self, condition: Condition, rate: int, tried: dict[int, Counts], bound: float
    ) -> Counts:
        """The runs with a rate; none after one that was cut off."""
        best = min([bound, *map(median, tried.values())])
        counts: Counts = []
        for seed in TUNING_SEEDS:
            limit = min(self.most_fresh, CUT * best)
            counts.append(self.count(self._run(condition, rate, seed, limit)))
            if counts[-1] is None:
                break
        return counts

    def _run(self, condition: Condition, rate: int, seed: int, limit: float) -> Run:
        return Run(
            workload=self.workload,
            condition=condition,
            rate=rate_of(rate),
            seed=seed,
            most_fresh=int(limit),
            device=self.device,
            width=self.width,
        )


def _best(tried: dict[int, Counts]) -> int:
    """The rate with the least median; the lowest rate where all were cut off."""
    return min(tried, key=lambda rate: (median(tried[rate]), rate))
