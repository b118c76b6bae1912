"""The learning rate of each condition, and the runs with it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from fresh.conditions import Condition
from fresh.rates import SEEDS, TUNING_SEEDS, OncePerCondition, rate_of, search_rates
from fresh.run import Run

__all__ = ["CUT", "Search", "Tuned", "median"]

CUT = 1.3  # of the best median so far: then a run that tunes is cut off
_PATIENCE = 2.0  # of the median without echoing: then any other run is cut off

Counts = list[int | None]


def median(counts: Iterable[int | None]) -> float:
    """Return the median of counts; runs that missed the target count as infinite."""
    return statistics.median(math.inf if n is None else n for n in counts)


@dataclass(frozen=True)
class Tuned:
    """Result of tuning a condition.

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
    _once: OncePerCondition[Tuned] = field(init=False)

    def __post_init__(self) -> None:
        self._once = OncePerCondition(self._tune)

    def of(self, condition: Condition) -> Tuned:
        """Return what came out of a condition; those that it is tuned after come first.

        Each is tuned once, also when several threads ask.
        """
        return self._once.of(condition)

    def _tune(self, condition: Condition) -> Tuned:
        bound = self._bound(condition)
        near = None if condition.near is None else self.of(condition.near)
        if (
            near is not None
            and near.condition.factor < condition.factor
            and near.median > bound
        ):
            return Tuned(condition, near.fifths, {}, [])
        tried, best = search_rates(
            self.rates,
            None if near is None else near.fifths,
            lambda rate, so_far: self._try(condition, rate, so_far, bound),
            median,
        )
        runs = self._final_runs(condition, best, bound)
        return Tuned(condition, best, tried, [self.count(run) for run in runs])

    def final_runs(self, tuned: Tuned) -> list[Run]:
        """Return the runs of a condition with its best rate."""
        bound = self._bound(tuned.condition)
        return self._final_runs(tuned.condition, tuned.fifths, bound)

    def _bound(self, condition: Condition) -> float:
        # Echoing that needs more than no echoing does is of no use.
        echoing = condition != condition.plain
        return self.of(condition.plain).median if echoing else math.inf

    def _final_runs(self, condition: Condition, rate: int, bound: float) -> list[Run]:
        limit = min(self.most_fresh, _PATIENCE * bound)
        return [self._run(condition, rate, seed, limit) for seed in SEEDS]

    def _try(
        self, condition: Condition, rate: int, tried: dict[int, Counts], bound: float
    ) -> Counts:
        """Return the runs with a rate; no further ones after a cut-off."""
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
