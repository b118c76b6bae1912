"""Measures of a sequence of draws: duplicates in a batch, distances between uses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Order", "distances", "duplicates", "order_of"]

Draws = NDArray[np.int64]


@dataclass(frozen=True)
class Order:
    """Of the middle half of a stream, without filling and draining.

    Attributes:
        duplicates: in a batch: draws less distinct examples, on average.
        most_duplicates: in one batch.
        mean_distance: draws from one use of an example to its next.
        nearest: the distance that 1 % of re-uses are below.
    """

    duplicates: float
    most_duplicates: int
    mean_distance: float
    nearest: float


def duplicates(draws: Draws, batch_size: int) -> NDArray[np.int64]:
    """Count the duplicates in each whole batch."""
    whole = len(draws) // batch_size * batch_size
    rows = np.sort(draws[:whole].reshape(-1, batch_size), axis=1)
    return np.sum(rows[:, 1:] == rows[:, :-1], axis=1)


def distances(draws: Draws) -> tuple[Draws, Draws]:
    """Return the example of each re-use, and the draws since its last use."""
    position = np.argsort(draws, kind="stable")
    numbers = draws[position]
    again = numbers[1:] == numbers[:-1]
    return numbers[1:][again], np.diff(position)[again]


def order_of(draws: Draws, batch_size: int) -> Order:
    """Return both measures for the middle half of the draws and examples."""
    quarter, fresh = len(draws) // 4, int(draws.max()) + 1
    repeated = duplicates(draws[quarter : 3 * quarter], batch_size)
    numbers, apart = distances(draws)
    middle = apart[(numbers >= fresh // 4) & (numbers < 3 * fresh // 4)]
    return Order(
        float(repeated.mean()),
        int(repeated.max()),
        float(middle.mean()),
        float(np.quantile(middle, 0.01)),
    )
