"""Fresh examples to the target: the learning rate tuned, then other seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from laggards.descent import Point, paths
from laggards.echoes import Cell
from laggards.problem import Problem

__all__ = ["GROUPS", "SEEDS", "Reached", "reached", "tuned_rate"]

ABOVE = 1.01  # the target over the optimum
SEEDS = 8  # whose mean loss is to reach the target
GROUPS = 5  # of so many seeds, after tuning
COARSE = tuple(2.0**power for power in range(2, -11, -1))
FINE = (-2 / 3, -1 / 3, 0.0, 1 / 3, 2 / 3)  # powers of two about the best coarse rate
MOST_FRESH = 4_000_000
_FIRST_GROUP = 1000


@dataclass(frozen=True)
class Reached:
    """Of one group of seeds: fresh examples and steps; infinite if it did not."""

    fresh: float
    steps: float


def _race(
    problem: Problem, cell: Cell, rates: Sequence[float], seeds: Sequence[int]
) -> float:
    """Return the first rate whose mean loss over the seeds is at the target."""
    target = ABOVE * problem.optimum
    for point in paths(problem, cell, rates, seeds):
        means = point.losses.mean(axis=0)
        if means.min() <= target:
            return rates[int(means.argmin())]
        if point.fresh > MOST_FRESH:
            break
    raise RuntimeError(f"no rate of {rates} reaches the target in {cell}")


def tuned_rate(problem: Problem, cell: Cell) -> float:
    """Return the constant learning rate that needs the fewest fresh examples."""
    seeds = range(SEEDS)
    coarse = _race(problem, cell, COARSE, seeds)
    if coarse in (COARSE[0], COARSE[-1]):
        raise RuntimeError(f"the best rate in {cell} is at the end of the grid")
    return _race(problem, cell, [coarse * 2**power for power in FINE], seeds)


def reached(
    problem: Problem, cell: Cell, rate: float, most_fresh: float = MOST_FRESH
) -> list[Reached]:
    """Return the point of each group of seeds other than the tuning's."""
    seeds = range(_FIRST_GROUP, _FIRST_GROUP + GROUPS * SEEDS)
    found: list[Reached | None] = [None] * GROUPS
    for point in paths(problem, cell, [rate], seeds):
        _note(found, point, ABOVE * problem.optimum)
        if all(found) or point.fresh > most_fresh:
            break
    return [group or Reached(math.inf, math.inf) for group in found]


def _note(found: list[Reached | None], point: Point, target: float) -> None:
    means = point.losses[:, 0].reshape(GROUPS, SEEDS).mean(axis=1)
    for group, mean in enumerate(means):
        if found[group] is None and mean <= target:
            found[group] = Reached(point.fresh, point.steps)
