"""The loops of a paced upstream and a paced step, and what they cost by themselves."""

from __future__ import annotations

import argparse
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from echobuf.cli.bench.pacing import Pace

__all__ = ["Added", "NoLoader", "Slowed", "Step", "Upstream"]
__all__ += ["fill", "harness_s", "train"]


class Upstream:
    """Numbers, each of which takes its own time to make.

    Args:
        delays_s: The time of each.
        pace: Makes the worker of a sweep.
    """

    def __init__(
        self, delays_s: Sequence[float], pace: Callable[[], Pace] = Pace
    ) -> None:
        self.delays_s = delays_s
        self._pace = pace

    def __len__(self) -> int:
        return len(self.delays_s)

    def __iter__(self) -> Iterator[np.int64]:
        pace = self._pace()
        for number, seconds in enumerate(self.delays_s):
            pace.work(seconds)
            yield np.int64(number)


class Step:
    """A step of training that takes `seconds`."""

    def __init__(self, seconds: float, pace: Pace | None = None) -> None:
        self._seconds = seconds
        self._pace = pace or Pace()

    def __call__(self, batch: Any) -> None:
        """Work; the batch itself does not matter."""
        self._pace.work(self._seconds)


class Takes(Protocol):
    """The side of a buffer that a producer sees."""

    def put(self, example: Any, /) -> object: ...
    def close(self) -> None: ...


def fill(upstream: Iterable[Any], buffer: Takes) -> None:
    """Put all examples of upstream, then close the buffer."""
    for example in upstream:
        buffer.put(example)
    buffer.close()


def train(batches: Iterable[Any], step: Callable[[Any], None]) -> int:
    """Do a step with each batch; return the number of draws in them."""
    served = 0
    for batch in batches:
        served += len(batch)
        step(batch)
    return served


class NoLoader:
    """The no-op candidate: a loader whose puts and draws do nothing.

    Args:
        upstream: Read by a thread, as fast as it yields.
        draws: How many batches an epoch has; each is empty, and there at once.
    """

    def __init__(self, upstream: Iterable[Any], draws: int) -> None:
        self._upstream = upstream
        self._draws = draws

    def __iter__(self) -> Iterator[tuple[()]]:
        reader = threading.Thread(target=fill, args=(self._upstream, self))
        reader.start()
        yield from itertools.repeat((), self._draws)
        reader.join()

    def put(self, example: Any, /) -> None:
        """Drop the example."""

    def close(self) -> None:
        """Do nothing."""


def harness_s(upstream: Upstream, draws: int, step_s: float) -> float:
    """Return what the loops cost beyond their work, in seconds for an example.

    It is the time of an epoch in which puts and draws do nothing, less that of the
    slower side's work.

    Args:
        upstream: Its examples are counted.
        draws: The batches of the epoch.
        step_s: The time of a step.
    """
    begin = time.perf_counter()
    train(NoLoader(upstream, draws), Step(step_s))
    seconds = time.perf_counter() - begin
    return (seconds - max(sum(upstream.delays_s), draws * step_s)) / len(upstream)


@dataclass(frozen=True)
class Slowed:
    """Items that each cost `seconds` more, which the thread that asks is busy for."""

    items: Iterable[Any]
    seconds: float
    clock: Callable[[], float] = time.perf_counter

    def __iter__(self) -> Iterator[Any]:
        for item in self.items:
            end = self.clock() + self.seconds
            while self.clock() < end:
                pass
            yield item


@dataclass(frozen=True)
class Added:
    """Time that is added to each put and each draw, to show that a figure sees it."""

    put_us: float
    draw_us: float

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        """Add `--add-to-put-us` and `--add-to-draw-us`."""
        for call in ("put", "draw"):
            parser.add_argument(
                f"--add-to-{call}-us",
                type=float,
                default=0.0,
                metavar="US",
                help=f"keep each {call} busy for so long, to see it in the figures (0)",
            )

    @classmethod
    def chosen(cls, options: argparse.Namespace) -> Added:
        """Return what the options say."""
        return cls(options.add_to_put_us, options.add_to_draw_us)

    def puts(self, upstream: Iterable[Any]) -> Iterable[Any]:
        """Return upstream with slower puts."""
        return Slowed(upstream, self.put_us * 1e-6) if self.put_us else upstream

    def draws(self, batches: Iterable[Any]) -> Iterable[Any]:
        """Return the batches with slower draws."""
        return Slowed(batches, self.draw_us * 1e-6) if self.draw_us else batches
