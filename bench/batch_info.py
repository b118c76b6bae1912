"""Infos of batches: what `with_info=True` adds to a small batch.

Batches of 256 records of 136 bytes, drawn from 100,000, each served `factor` times:
with and without infos, new and into `out=`. In one process, by turns, in some 20 s.
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

BATCH, WINDOW = 256, 100_000
FACTORS = (2, 8)
ROUNDS, CALLS = 150, 380  # of draws, all of one pass

RECORDS = {
    "x": np.zeros((WINDOW, 32), np.float32),
    "y": np.arange(WINDOW),
}
SPEC = {"x": echobuf.Field(32, np.float32), "y": echobuf.Field((), np.int64)}


class Draws:
    """Draws from a window that is always full."""

    def __init__(self, factor: int, *, with_info: bool) -> None:
        self._segment = WINDOW // factor
        self.buffer = echobuf.EchoBuffer(
            SPEC, batch_size=BATCH, window=WINDOW, factor=factor, with_info=with_info
        )
        self.buffer.put_batch(RECORDS)
        self.out = self.buffer.next_batch()

    def measure(self, out: Any) -> float:
        """Return the seconds of a draw; what makes draws possible is not timed."""
        while self.buffer.ready():
            self.buffer.next_batch()
        self.buffer.put_batch({n: a[: self._segment] for n, a in RECORDS.items()})
        next_batch = self.buffer.next_batch
        begun = time.perf_counter()
        for _ in range(CALLS):
            next_batch(out)
        return (time.perf_counter() - begun) / CALLS


def compare(factor: int, rounds: int) -> dict[str, Any]:
    """Return, new and with `out=`, the medians and what infos add."""
    plain, told = (Draws(factor, with_info=each) for each in (False, True))
    times: dict[str, list[tuple[float, float]]] = {"new": [], "out=": []}
    for _ in range(rounds):
        times["new"].append((plain.measure(None), told.measure(None)))
        times["out="].append((plain.measure(plain.out), told.measure(told.out)))
    figures = {}
    for name, both in times.items():
        without, with_info = zip(*both, strict=True)
        ratio = paired_ratio(with_info, without)
        added = statistics.median(b - a for a, b in both)
        figures[name] = {
            "without_us": statistics.median(without) * 1e6,
            "with_info_us": statistics.median(with_info) * 1e6,
            "added_us": added * 1e6,
            "ratio": ratio.median,
            "ratio_range": ratio.range,
        }
        print(
            f"factor {factor}, {name:4}  {figures[name]['without_us']:.2f} us, with "
            f"infos {figures[name]['with_info_us']:.2f} us: {ratio.median:.3f}"
        )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    about = environment()
    figures = {str(factor): compare(factor, options.rounds) for factor in FACTORS}
    write_figures("batch_info", options.out, {"factor": figures}, taken_in=about)


if __name__ == "__main__":
    main()
