"""Normals and Beta weights from words."""

from __future__ import annotations

import math

import numpy as np

from transform_reference.words import Draw

# Wichura 1988, algorithm AS 241, PPND7: numerator and denominator of each range,
# from the highest power down.
_MIDDLE = (
    (59.109374720, 159.29113202, 50.434271938, 3.3871327179),
    (67.187563600, 78.757757664, 17.895169469, 1.0),
)
_NEAR = (
    (0.17023821103, 1.3067284816, 2.7568153900, 1.4234372777),
    (0.12021132975, 0.73700164250, 1.0),
)
_FAR = (
    (0.017337203997, 0.42868294337, 3.0812263860, 6.6579051150),
    (0.012258202635, 0.24197894225, 1.0),
)


def _ratio(coefficients: tuple[tuple[float, ...], ...], x: np.ndarray) -> np.ndarray:
    above, below = coefficients
    return np.polyval(above, x) / np.polyval(below, x)


def normal_quantile(p: np.ndarray) -> np.ndarray:
    """The standard normal's quantile for 0 < p < 1, to some seven digits."""
    p = np.asarray(p, float)
    q = p - 0.5
    middle = q * _ratio(_MIDDLE, 0.180625 - q * q)
    r = np.sqrt(-np.log(np.minimum(p, 1 - p)))
    tail = np.where(r <= 5, _ratio(_NEAR, r - 1.6), _ratio(_FAR, r - 5))
    return np.where(np.abs(q) <= 0.425, middle, np.copysign(tail, q))


def centered(word: np.ndarray | int) -> np.ndarray:
    """A word as 0 < u < 1, never at an end."""
    return (np.asarray(word, float) + 0.5) * 2.0**-32


def normals(draw: Draw, count: int) -> np.ndarray:
    """One standard normal an element."""
    return normal_quantile(centered(draw.elements(count)[:, 0]))


def johnk(u: float, v: float, alpha: float) -> float | None:
    """Johnk 1964, for alpha <= 1; None where the attempt fails."""
    x, y = u ** (1 / alpha), v ** (1 / alpha)
    if x + y > 1:
        return None
    if x + y > 0:
        return x / (x + y)
    # Both underflow; their ratio does not.
    return 1 / (1 + math.exp(min((math.log(v) - math.log(u)) / alpha, 700)))


def ulrich(u: float, v: float, alpha: float) -> float | None:
    """Ulrich 1984 (Devroye 1986, IX.4.2), for alpha > 1; None where it fails."""
    u = 2 * u - 1
    s = u * u + v * v
    if not 0 < s <= 1:
        return None
    return 0.5 + u * v / s * math.sqrt(1 - s ** (2 / (2 * alpha - 1)))


def beta(draw: Draw, alpha: float, first: int = 1, attempts: int = 64) -> float:
    """Beta(alpha, alpha): an attempt a block, from block `first` on; else a half."""
    sampler = johnk if alpha <= 1 else ulrich
    for block in range(first, first + attempts):
        u, v = (float(centered(word)) for word in draw.words(block)[:2])
        found = sampler(u, v, alpha)
        if found is not None:
            return found
    return 0.5
