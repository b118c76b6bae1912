"""Distances of samples from distributions, as p-values; with NumPy alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np


def chi_squared_p(counts: np.ndarray, shares: Sequence[float] | None = None) -> float:
    """The chance of counts as far from these shares; equal ones where none are given.

    By the cube root of Wilson and Hilferty 1931, good to some per cent of itself.
    """
    counts = np.asarray(counts, float)
    shares = np.full(len(counts), 1 / len(counts)) if shares is None else shares
    expected = np.asarray(shares, float) * counts.sum()
    freedom = len(counts) - 1
    statistic = ((counts - expected) ** 2 / expected).sum()
    spread = 2 / (9 * freedom)
    z = ((statistic / freedom) ** (1 / 3) - 1 + spread) / math.sqrt(spread)
    return 0.5 * math.erfc(z / math.sqrt(2))


def whole_numbers_p(values: Sequence[int] | np.ndarray, n: int) -> float:
    """Of values that should be even over 0 ... n - 1; 0 where one is outside."""
    values = np.asarray(values)
    if values.min() < 0 or values.max() >= n:
        return 0.0
    return chi_squared_p(np.bincount(values, minlength=n))


def kolmogorov_p(sample: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray]) -> float:
    """The chance of a sample as far from a continuous distribution."""
    at = cdf(np.sort(np.asarray(sample, float)))
    n = len(at)
    steps = np.arange(n + 1) / n
    distance = max((steps[1:] - at).max(), (at - steps[:-1]).max())
    z = (math.sqrt(n) + 0.12 + 0.11 / math.sqrt(n)) * distance
    terms = [(-1) ** (k - 1) * math.exp(-2 * (k * z) ** 2) for k in range(1, 101)]
    return min(1.0, max(0.0, 2 * sum(terms)))


def uniform(low: float, high: float) -> Callable[[np.ndarray], np.ndarray]:
    """Its distribution function."""
    return lambda x: np.clip((x - low) / (high - low), 0, 1)


def normal(x: np.ndarray) -> np.ndarray:
    """The distribution function of the standard normal."""
    return 0.5 + 0.5 * np.vectorize(math.erf)(x / math.sqrt(2))


def symmetric_beta(alpha: float) -> Callable[[np.ndarray], np.ndarray]:
    """The distribution function of Beta(alpha, alpha).

    x = t**(1 / alpha) takes the pole at 0 away; the other half is its mirror.
    """
    t = np.linspace(0, 0.5**alpha, 20001)
    density = (1 - t ** (1 / alpha)) ** (alpha - 1)
    area = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])

    def cdf(x: np.ndarray) -> np.ndarray:
        lower = np.minimum(x, 1 - x)
        share = 0.5 * np.interp(lower**alpha, t, area / area[-1])
        return np.where(x <= 0.5, share, 1 - share)

    return cdf
