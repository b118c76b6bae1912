"""Intersection of a level and a rising line, fitted to points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TwoLines:
    """`level` up to the knee, `intercept + slope * x` after it."""

    level: float
    intercept: float
    slope: float

    @property
    def knee(self) -> float:
        return (self.level - self.intercept) / self.slope


def fit(x: Sequence[float], y: Sequence[float]) -> TwoLines:
    """Return the two lines with the least relative squared error.

    Args:
        x: In rising order.
        y: Positive. At least two points belong to either line: which ones is found,
            not told.
    """
    if len(x) < 4:
        raise ValueError(f"two lines need 4 points, not {len(x)}")
    xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    fits = [_split(xs, ys, at) for at in range(2, len(xs) - 1)]
    return min(fits, key=lambda found: found[0])[1]


def _split(x: np.ndarray, y: np.ndarray, at: int) -> tuple[float, TwoLines]:
    """Return the squared error and the lines, if the first `at` points are level."""
    flat = np.ones((at, 1))
    line = np.stack([np.ones(len(x) - at), x[at:]], axis=1)
    (level,), below = _least(flat, y[:at])
    (intercept, slope), above = _least(line, y[at:])
    return below + above, TwoLines(float(level), float(intercept), float(slope))


def _least(columns: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    weighted = columns / y[:, None]
    found = np.linalg.lstsq(weighted, np.ones(len(y)), rcond=None)[0]
    return found, float(((weighted @ found - 1) ** 2).sum())
