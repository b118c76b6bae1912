"""The learning rate of each condition by final error, and the runs with it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fresh.conditions import Condition, conditions
from fresh.rates import SEEDS, TUNING_SEEDS, OncePerCondition, rate_of, search_rates
from quality.run import FinalRun, Outcome

__all__ = ["FinalSearch", "Finished", "compared", "mean_error"]


def compared() -> list[Condition]:
    """Return no echoing, and each kind with each factor in the usual window."""
    return [one for one in conditions() if one.group == "factors"]


def mean_error(outcomes: Sequence[Outcome]) -> float:
    """Return the mean of the final errors; infinite where a run diverged."""
    return statistics.mean(
        math.inf if one.error is None else one.error for one in outcomes
    )


@dataclass(frozen=True)
class Finished:
    """A condition with its runs.

    Attributes:
        condition: it.
        fifths: its learning rate, in fifths of a decade.
        tried: outcomes of the runs that tuned, by rate in fifths of a decade.
        outcomes: of the seeds, in their order.
    """

    condition: Condition
    fifths: int
    tried: dict[int, list[Outcome]]
    outcomes: list[Outcome]

    @property
    def at_edge(self) -> bool:
        """Tell if the best rate is the lowest or the highest of those tried."""
        return self.fifths in (min(self.tried), max(self.tried))

    @property
    def diverged(self) -> int:
        """Return the number of diverged seeds."""
        return sum(one.error is None for one in self.outcomes)


@dataclass
class FinalSearch:
    """Tunes the conditions of a workload by final error.

    Attributes:
        workload: its name.
        rates: to begin with, in fifths of a decade.
        steps: of every run.
        measure: makes a run.
    """

    workload: str
    rates: range
    steps: int
    measure: Callable[[FinalRun], Outcome]
    _once: OncePerCondition[Finished] = field(init=False)

    def __post_init__(self) -> None:
        self._once = OncePerCondition(self._tune)

    def of(self, condition: Condition) -> Finished:
        """Return a condition with its runs; those that it is tuned after come first."""
        return self._once.of(condition)

    def _tune(self, condition: Condition) -> Finished:
        near = None if condition.near is None else self.of(condition.near).fifths
        tried, best = search_rates(
            self.rates,
            near,
            lambda rate, _: self._runs(condition, rate, TUNING_SEEDS),
            mean_error,
        )
        return Finished(condition, best, tried, self._runs(condition, best, SEEDS))

    def _runs(self, condition: Condition, rate: int, seeds: range) -> list[Outcome]:
        return [
            self.measure(
                FinalRun(
                    self.workload, condition, rate_of(rate), seed, steps=self.steps
                )
            )
            for seed in seeds
        ]
