"""The search for a learning rate, whatever makes one better than another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from fresh.conditions import Condition

__all__ = ["SEEDS", "TUNING_SEEDS", "OncePerCondition", "rate_of", "search_rates"]

SEEDS = range(5)
TUNING_SEEDS = range(100, 102)
_MOST_EXTENSIONS = 5

T = TypeVar("T")


def rate_of(fifths: int) -> float:
    """Return the rate that is so many fifths of a decade from 1, to two digits."""
    return float(f"{10 ** (fifths / 5):.2g}")


def search_rates(
    grid: range,
    near: int | None,
    attempt: Callable[[int, dict[int, T]], T],
    score: Callable[[T], float],
) -> tuple[dict[int, T], int]:
    """Try rates, in fifths of a decade, and go on while the best lies at an edge.

    Args:
        grid: rates to begin with, where there is no other condition to begin at.
        near: the best rate of such a condition: it and its neighbours come first.
        attempt: tries a rate, beside those tried before it.
        score: of what that returned: the lower, the better; the lower rate wins a tie.

    Returns:
        What came out by rate, and the best rate. It lies at an edge of those tried
        only where the search was cut off, after five steps beyond the grid.
    """
    if near is None:
        middle = grid[len(grid) // 2]
        rates = sorted(grid, key=lambda rate: abs(rate - middle))
    else:
        rates = [near, near - 1, near + 1]
    tried: dict[int, T] = {}

    def best() -> int:
        return min(tried, key=lambda rate: (score(tried[rate]), rate))

    for rate in rates:
        tried[rate] = attempt(rate, tried)
    for _ in range(_MOST_EXTENSIONS):
        further = best() - 1 if best() == min(tried) else best() + 1
        if further in tried:
            break
        tried[further] = attempt(further, tried)
    return tried, best()


class OncePerCondition(Generic[T]):
    """Results of a function of conditions, each made once.

    Args:
        make: the function; it may ask for the results of other conditions.
    """

    def __init__(self, make: Callable[[Condition], T]) -> None:
        self._make = make
        self._done: dict[Condition, T] = {}
        self._locks: dict[Condition, threading.Lock] = {}

    def of(self, condition: Condition) -> T:
        """Return the result for a condition; a second thread waits for the first."""
        with self._locks.setdefault(condition, threading.Lock()):
            if condition not in self._done:
                self._done[condition] = self._make(condition)
            return self._done[condition]
