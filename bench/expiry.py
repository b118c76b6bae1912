"""Draws of records that may expire: what `max_staleness=` adds.

Batches of 256 records of 136 bytes, drawn from 8,192 and from 100,000: plain, and with
`max_staleness=` where nothing expires. Each draw is timed, that which begins a pass
among them. In one process, by turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import echobuf
from echobuf.cli.bench.report import write_figures
from echobuf.cli.bench.rounds import paired_ratio
from echobuf.cli.environment import environment
from sampling import RESULTS

BATCH = 256
WINDOWS = (8_192, 100_000)
FACTORS = (2, 8)
ROUNDS = 60
DRAWS = 400  # at least, of a round

SPEC = {"x": echobuf.Field(32, np.float32), "y": echobuf.Field((), np.int64)}
CANDIDATES: dict[str, dict[str, Any]] = {
    "plain": {},
    "max_staleness": {"max_staleness": 2**40},
}


def timer_seconds() -> float:
    """Return what reading the clock twice adds to what lies between."""
    clock = time.perf_counter
    return statistics.median(-clock() + clock() for _ in range(10_000))


class Draws:
    """Draws from a window that is full; a segment is put before each pass.

    Args:
        window: records in it.
        factor: passes that a record stays for.
        arguments: of the buffer.
        into: draw into arrays, the same each time.
    """

    def __init__(
        self, window: int, factor: int, arguments: dict[str, Any], *, into: bool
    ) -> None:
        self._segment = {
            "x": np.zeros((window // factor, 32), np.float32),
            "y": np.arange(window // factor),
        }
        self._versioned = "max_staleness" in arguments
        self._version = 0
        self._buffer = echobuf.EchoBuffer(
            SPEC, batch_size=BATCH, window=window, factor=factor, **arguments
        )
        for _ in range(factor - 1):
            self._put()
        self._out = None
        self._put()
        if into:
            self._out = self._buffer.next_batch()
        self.first_s: list[float] = []
        for _ in range(2 * factor):
            self._pass()
        self.first_s.clear()

    def measure(self, draws: int) -> float:
        """Return the seconds of a draw, over so many whole passes as have these.

        The median of the draws that begin a pass and that of the others, by their
        numbers: an interrupt does not count.
        """
        first, other = [], []
        while len(first) + len(other) < draws:
            begins, *rest = self._pass()
            first.append(begins)
            other += rest
        sums = (statistics.median(each) * len(each) for each in (first, other))
        return sum(sums) / (len(first) + len(other))

    def _put(self) -> None:
        if self._versioned:
            self._version += 1
            self._buffer.put_batch(self._segment, version=self._version)
        else:
            self._buffer.put_batch(self._segment)

    def _pass(self) -> list[float]:
        """Return the seconds of each draw of a pass."""
        self._put()
        buffer, out, clock = self._buffer, self._out, time.perf_counter
        next_batch = buffer.next_batch
        spent = []
        while True:  # the first draw, in which the pass begins, before any `ready()`
            begun = clock()
            next_batch(out)
            spent.append(clock() - begun)
            if not buffer.ready():
                break
        self.first_s.append(spent[0])
        return spent


def compare(
    window: int, factor: int, rounds: int, *, into: bool, timer: float
) -> dict[str, Any]:
    """Return the medians of all candidates, and their ratios round by round."""
    draws = {
        name: Draws(window, factor, arguments, into=into)
        for name, arguments in CANDIDATES.items()
    }
    times: dict[str, list[float]] = {name: [] for name in draws}
    for k in range(rounds):
        names = list(draws) if k % 2 else list(reversed(draws))
        for name in names:
            times[name].append(draws[name].measure(DRAWS) - timer)
    figures: dict[str, Any] = {
        f"{name}_us": statistics.median(taken) * 1e6 for name, taken in times.items()
    }
    for name, each in draws.items():
        first = statistics.median(each.first_s) - timer
        figures[f"{name}_first_of_pass_us"] = first * 1e6
    ratio = paired_ratio(times["max_staleness"], times["plain"])
    figures["max_staleness_over_plain"] = ratio.median
    figures["max_staleness_over_plain_range"] = ratio.range
    return figures


def show(figures: dict[str, Any]) -> str:
    """Return a line."""
    times = ", ".join(f"{name} {figures[name + '_us']:.2f} us" for name in CANDIDATES)
    return f"{times}; ratio {figures['max_staleness_over_plain']:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    about = environment()
    timer = timer_seconds()
    results: dict[str, Any] = {}
    for window in WINDOWS:
        for factor in FACTORS:
            for into in (False, True):
                figures = compare(
                    window, factor, options.rounds, into=into, timer=timer
                )
                kind = "out=" if into else "new"
                results.setdefault(str(window), {}).setdefault(str(factor), {})[
                    kind
                ] = figures
                print(f"window {window}, factor {factor}, {kind}: {show(figures)}")
    write_figures(
        "expiry",
        options.out,
        {"batch_size": BATCH, "timer_us": timer * 1e6, "window": results},
        taken_in=about,
    )


if __name__ == "__main__":
    main()
