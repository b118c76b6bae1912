"""Paced upstreams and steps, whose work has a known duration."""

from __future__ import annotations

import argparse
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = [
    "AddedDelays",
    "PacedWork",
    "SlowedIterable",
    "Step",
    "Upstream",
    "fill",
    "harness_s",
    "no_op_batches",
    "train",
]


class PacedWork:
    """Simulated work of known durations, by sleeping; exact on average.

    Work begins at the call, so that time between calls is never made up for. Only the
    time by which a sleep overshoots its end is taken off the sleeps that follow.

    Args:
        clock: Returns the time in seconds.
        sleep: Waits for some seconds, or longer.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._overshot_s = 0.0

    def work(self, seconds: float) -> None:
        """Work for `seconds` from now, less the time that earlier sleeps overshot."""
        now = self._clock()
        end = now + seconds - self._overshot_s
        if end > now:
            self._sleep(end - now)
            now = self._clock()
        self._overshot_s = now - end


@dataclass(frozen=True)
class Upstream:
    """Iterable of numbers, each of which takes a given time to make.

    Args:
        delays_s: The seconds of each number.
        pace: Makes the paced work of one iteration.
    """

    delays_s: Sequence[float]
    pace: Callable[[], PacedWork] = PacedWork

    def __len__(self) -> int:
        return len(self.delays_s)

    def __iter__(self) -> Iterator[np.int64]:
        pace = self.pace()
        for number, seconds in enumerate(self.delays_s):
            pace.work(seconds)
            yield np.int64(number)


class Step:
    """A training step that takes `seconds`, whatever the batch is."""

    def __init__(self, seconds: float, pace: PacedWork | None = None) -> None:
        self._seconds = seconds
        self._pace = pace or PacedWork()

    def __call__(self, batch: Any) -> None:
        """Work for the step's time."""
        self._pace.work(self._seconds)


def fill(upstream: Iterable[Any], buffer: Any) -> None:
    """Put all examples of upstream, then close the buffer."""
    for example in upstream:
        buffer.put(example)
    buffer.close()


def train(batches: Iterable[Any], step: Callable[[Any], None]) -> int:
    """Do a step with each batch; return the number of draws."""
    served = 0
    for batch in batches:
        served += len(batch)
        step(batch)
    return served


_NO_OP = SimpleNamespace(put=lambda example: None, close=lambda: None)


def no_op_batches(upstream: Iterable[Any], draws: int) -> Iterator[tuple[()]]:
    """Yield empty batches, while a thread reads upstream; puts and draws do nothing."""
    reader = threading.Thread(target=fill, args=(upstream, _NO_OP))
    reader.start()
    yield from itertools.repeat((), draws)
    reader.join()


def harness_s(upstream: Upstream, draws: int, step_s: float) -> float:
    """Return the overhead of the loops beyond their work, in seconds per example.

    It is the time of an epoch in which puts and draws do nothing, less the work of the
    slower side.

    Args:
        upstream: The paced upstream; overhead is divided by its length.
        draws: Number of batches of the epoch.
        step_s: The seconds of a step.
    """
    begin = time.perf_counter()
    train(no_op_batches(upstream, draws), Step(step_s))
    seconds = time.perf_counter() - begin
    return (seconds - max(sum(upstream.delays_s), draws * step_s)) / len(upstream)


@dataclass(frozen=True)
class SlowedIterable:
    """Iterable whose items each keep the calling thread busy for `seconds` more."""

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
class AddedDelays:
    """Delays added to each put and draw, to check that they appear in the figures."""

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
    def chosen(cls, options: argparse.Namespace) -> AddedDelays:
        """Make the delays from the options."""
        return cls(options.add_to_put_us, options.add_to_draw_us)

    def puts(self, upstream: Iterable[Any]) -> Iterable[Any]:
        """Return upstream with slower puts."""
        return SlowedIterable(upstream, self.put_us * 1e-6) if self.put_us else upstream

    def draws(self, batches: Iterable[Any]) -> Iterable[Any]:
        """Return the batches with slower draws."""
        return SlowedIterable(batches, self.draw_us * 1e-6) if self.draw_us else batches
