"""Upstreams that make a trial of it: how long each fresh example takes to make.

Times are in units of t_downstream, the time of one draw; so a mean is an R.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.float64]
Make = Callable[[np.random.Generator, int], Times]
"""(random numbers, n) -> the times of n fresh examples."""


@dataclass(frozen=True)
class Shape:
    """A buffer with `factor="auto"`, or one that a fixed factor is compared in."""

    window: int = 256
    batch_size: int = 16
    max_factor: int = 8


@dataclass(frozen=True)
class Scenario:
    """An upstream, and how much of it a trial takes.

    Attributes:
        name: what the table calls it.
        make: makes the times.
        fresh: examples that a trial takes, or that an epoch has.
        epochs: 0: upstream goes on for ever.
    """

    name: str
    make: Make
    fresh: int
    epochs: int = 0


def steady(mean: float) -> Make:
    """Times that vary by a fifth at most."""
    return lambda random, n: mean * random.uniform(0.8, 1.2, n)


def jumps(low: float, high: float, at: tuple[int, int]) -> Make:
    """From `low` to `high` and back, after so many examples each, over and over."""

    def make(random: np.random.Generator, n: int) -> Times:
        round_ = np.repeat([low, high], at)
        return np.resize(round_, n) * random.uniform(0.8, 1.2, n)

    return make


def pareto(mean: float, index: float) -> Make:
    """Heavy-tailed times; the smaller the index, the heavier."""

    def make(random: np.random.Generator, n: int) -> Times:
        return mean * (index - 1) / index * (1 + random.pareto(index, n))

    return make


def bursts(mean: float, size: int) -> Make:
    """`size` examples at once, then nothing for as long as they would have taken."""

    def make(random: np.random.Generator, n: int) -> Times:
        times = np.zeros(n)
        starts = times[::size]
        starts[:] = mean * size * random.uniform(0.5, 1.5, len(starts))
        return times

    return make


def starved(mean: float, every: int, stop: float) -> Make:
    """Steady, but once in every `every` examples it stops, for a time `stop`."""

    def make(random: np.random.Generator, n: int) -> Times:
        times = steady(mean)(random, n)
        for first in range(0, n - every + 1, every):
            times[first + random.integers(every)] += stop
        return times

    return make


def scenarios(shape: Shape, windows: int) -> list[Scenario]:
    """All of them, `windows` windows of fresh examples long."""
    w = shape.window
    n = windows * w
    ratios = range(1, shape.max_factor + 1)
    return [
        *(Scenario(f"steady, R {r}", steady(r), n) for r in ratios),
        Scenario("jumps, R 1, 8, 1", jumps(1, 8, (24 * w, 8 * w)), n),
        *(
            Scenario(f"Pareto {index}, R 4", pareto(4, index), n)
            for index in (1.2, 1.5, 2.5)
        ),
        *(
            Scenario(f"bursts of {text}, R {r}", bursts(r, size), n)
            for r in (2, 4)
            for text, size in (
                ("1/4 window", w // 4),
                ("a window", w),
                ("2 windows", 2 * w),
            )
        ),
        Scenario("starved, R 2", starved(2, 32 * w, 20.0 * w), n),
        *(
            Scenario(f"epochs of {k} windows, R {r}", steady(r), k * w, windows // k)
            for k in (3, 10)
            for r in (2, 4)
        ),
    ]
