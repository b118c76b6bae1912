"""The learning rate of each condition, tuned on seeds of its own, and its runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fresh.rates import search_rates
from policies.condition import Condition
from policies.run import Trial, make_learner

__all__ = ["SEEDS", "SMOOTHING", "TUNING_SEEDS", "Tuned", "mean_reward", "tune"]

# Five at first; conditions that use rollouts alike then differed by chance.
SEEDS = range(15)
TUNING_SEEDS = range(100, 104)
SMOOTHING = 3  # evaluations, whose mean is to reach the target

Row = dict[str, Any]


def rate_of(halves: int) -> float:
    """Return the rate that is so many half decades from 1, to two digits."""
    return float(f"{10 ** (halves / 2):.2g}")


def smoothed(row: Row) -> list[tuple[int, int, float]]:
    """Return samples, updates and the mean reward of the last evaluations."""
    rewards = [reward for _, _, reward, _ in row["curve"]]
    return [
        (samples, updates, statistics.mean(rewards[max(0, end - SMOOTHING) : end]))
        for end, (samples, updates, _, _) in enumerate(row["curve"], 1)
    ]


def mean_reward(row: Row) -> float:
    """Return the mean of a run's evaluations: the reward over generated samples."""
    return statistics.mean(reward for _, _, reward, _ in row["curve"])


@dataclass(frozen=True)
class Tuned:
    """A condition with its learning rate and runs.

    Attributes:
        condition: that was tuned.
        halves: the rate, in half decades.
        tried: mean reward by rate.
        rows: outcomes, one for each seed.
        target: of the learner.
        batch: samples of an update.
    """

    condition: Condition
    halves: int
    tried: dict[int, float]
    rows: Sequence[Row]
    target: float
    batch: int

    @property
    def rate(self) -> float:
        """Return the learning rate."""
        return rate_of(self.halves)

    def reached(self) -> list[tuple[int, int] | None]:
        """Return the samples and updates to the target for each seed; None: missed."""
        found = []
        for row in self.rows:
            at = (each[:2] for each in smoothed(row) if each[2] >= self.target)
            found.append(next(at, None))
        return found

    def figures(self) -> dict[str, Any]:
        """Return what a result file tells of the condition."""
        reached = self.reached()
        final = [smoothed(row)[-1][2] for row in self.rows]
        return {
            "factor": self.condition.factor,
            "max_staleness": self.condition.max_staleness,
            "learning_rate": self.rate,
            "tuning": {f"{rate_of(k):g}": v for k, v in sorted(self.tried.items())},
            "samples_to_target": [each and each[0] for each in reached],
            "updates_to_target": [each and each[1] for each in reached],
            "mean_reward": [mean_reward(row) for row in self.rows],
            "final_reward": final,
            "final_entropy": [row["curve"][-1][3] for row in self.rows],
            "updates": [row["curve"][-1][1] for row in self.rows],
            "expired": [row["expired"] for row in self.rows],
            "mean_age": statistics.mean(row["mean_age"] for row in self.rows),
            "largest_age": max(row["largest_age"] for row in self.rows),
        }


def tune(
    name: str, condition: Condition, near: int | None, run: Callable[[Trial], Row]
) -> Tuned:
    """Search the rate by the mean reward of four seeds, and run all seeds with it.

    Args:
        name: of the learner.
        condition: to tune.
        near: the best rate of a condition like it, if there is one.
        run: makes a run, or looks it up.
    """
    learner = make_learner(name)

    def attempt(halves: int, tried: dict[int, float]) -> float:
        trials = (
            Trial(name, condition, rate_of(halves), seed) for seed in TUNING_SEEDS
        )
        return statistics.mean(mean_reward(run(trial)) for trial in trials)

    grid = range(learner.first_rate - 1, learner.first_rate + 2)
    tried, best = search_rates(grid, near, attempt, lambda reward: -reward)
    rows = [run(Trial(name, condition, rate_of(best), seed)) for seed in SEEDS]
    return Tuned(condition, best, tried, rows, learner.target, learner.batch)
