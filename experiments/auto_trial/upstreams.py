"""Upstreams that make a trial of it: how long each fresh example takes to make.

Times are in units of t_downstream, the time of one draw; so a mean is an R.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.float64]
Stops = Sequence[tuple[float, float]]
Make = Callable[[np.random.Generator, int], Times]
"""(random numbers, n) -> the times of n fresh examples."""


LONGER = 1.3
"""So much more of upstream is there for a factor that takes more fresh examples."""

MOST_STOPS = 100
"""Far more than a trial has time for."""


@dataclass(frozen=True)
class Shape:
    """A buffer with `factor="auto"`, or one that a fixed factor is compared in."""

    window: int = 256
    batch_size: int = 16
    max_factor: int = 8


@dataclass(frozen=True)
class Upstream:
    """Time to make each fresh example, and the stops of all work.

    Attributes:
        times: in order.
        stops: (time of the clock, how long), in order.
    """

    times: Times
    stops: Stops = ()


@dataclass(frozen=True)
class Scenario:
    """An upstream, and how much of it a trial takes.

    Attributes:
        name: what the table calls it.
        make: makes the times.
        fresh: examples that a trial takes, or that an epoch has.
        epochs: 0: upstream goes on for ever.
        outages: it stops once in each of so long a time, for so long.
        jumps: the first examples of another R.
    """

    name: str
    make: Make
    fresh: int
    epochs: int = 0
    outages: tuple[float, float] | None = None
    jumps: tuple[int, ...] = ()

    def upstreams(self, seed: int) -> list[Upstream]:
        """Return the lengths of its epochs; one beyond a trial's if it has none."""
        random = np.random.default_rng(seed)
        n = self.fresh if self.epochs else int(LONGER * self.fresh)
        return [
            Upstream(self.make(random, n), self._stops(random))
            for _ in range(self.epochs or 1)
        ]

    def _stops(self, random: np.random.Generator) -> Stops:
        if self.outages is None:
            return ()
        every, long = self.outages
        at = random.uniform(0, every - long, MOST_STOPS)
        return [(k * every + start, long) for k, start in enumerate(at.tolist())]


def steady(mean: float) -> Make:
    """Return times that vary by a fifth at most."""
    return lambda random, n: mean * random.uniform(0.8, 1.2, n)


def jumps(low: float, high: float, at: tuple[int, int]) -> Make:
    """Return times that change from `low` to `high` and back, repeatedly."""

    def make(random: np.random.Generator, n: int) -> Times:
        round_ = np.repeat([low, high], at)
        return np.resize(round_, n) * random.uniform(0.8, 1.2, n)

    return make


def pareto(mean: float, index: float) -> Make:
    """Return heavy-tailed times; the smaller the index, the heavier."""

    def make(random: np.random.Generator, n: int) -> Times:
        return mean * (index - 1) / index * (1 + random.pareto(index, n))

    return make


def bursts(mean: float, size: int) -> Make:
    """Return times of bursts of `size` examples, with gaps as long as they took."""

    def make(random: np.random.Generator, n: int) -> Times:
        times = np.zeros(n)
        starts = times[::size]
        starts[:] = mean * size * random.uniform(0.5, 1.5, len(starts))
        return times

    return make


def scenarios(shape: Shape, windows: int) -> list[Scenario]:
    """Return all upstreams, `windows` windows of fresh examples long."""
    w = shape.window
    n = windows * w
    return [
        *(
            Scenario(f"steady, R {r}", steady(r), n)
            for r in range(1, shape.max_factor + 1)
        ),
        _jumping(shape, windows),
        *(
            Scenario(f"Pareto {index}, R {r}", pareto(r, index), n)
            for index, r in ((2.5, 4), (1.5, 2), (1.5, 4), (1.2, 4))
        ),
        *(
            Scenario(f"bursts of {text}, R {r}", bursts(r, size), n)
            for text, size, ratios in (
                ("1/4 window", w // 4, (2, 4)),
                ("a window", w, (1, 2, 4)),
                ("2 windows", 2 * w, (2, 4)),
            )
            for r in ratios
        ),
        *(
            Scenario(f"starved, R {r}", steady(r), n, outages=(96.0 * w, 20.0 * w))
            for r in (2, 4)
        ),
        *(
            Scenario(f"epochs of {k} windows, R {r}", steady(r), k * w, windows // k)
            for k in (3, 10)
            for r in (2, 4)
        ),
    ]


def _jumping(shape: Shape, windows: int) -> Scenario:
    """Return times of R 1 and the largest factor in turn, up to upstream's end."""
    fast, slow = 24 * shape.window, 8 * shape.window
    most = windows * shape.window
    at = [
        edge
        for start in range(0, most, fast + slow)
        for edge in (start, start + fast)
        if 0 < edge <= most - slow
    ]
    high = shape.max_factor
    make = jumps(1, high, (fast, slow))
    return Scenario(f"jumps, R 1, {high}, 1", make, most, jumps=tuple(at))
