"""The cost of putting ragged examples, beside fixed ones of the same size."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import echobuf
from echobuf.cli.bench.rounds import paired_ratio

GOAL = 1.25
WINDOW_BYTES = 1 << 26
MOST_EXAMPLES = 1 << 15
SIZES = (128, 2048, 32_768)
AT_ONCE = 256
LAPS = 5  # of windows, which touch all of the memory: a ring has up to four


def measure_of(
    size: int, *, ragged: bool, at_once: int, window_bytes: int
) -> Callable[[], float]:
    """Return a function that fills a window, and returns the seconds of an example."""
    count = min(MOST_EXAMPLES, window_bytes // size)
    length = size // 4
    buffer = echobuf.EchoBuffer(
        echobuf.Field((None if ragged else length,), np.int32),
        batch_size=1,
        window=count,
        factor=1,
        payload_bytes=count * size if ragged else None,
    )
    one = np.arange(length, dtype=np.int32)
    many: Any = np.tile(one, (at_once, 1))
    if ragged:
        many = echobuf.Ragged(many.reshape(-1), np.arange(at_once + 1) * length)

    def measure() -> float:
        buffer.reset()
        put, item = (buffer.put, one) if at_once == 1 else (buffer.put_batch, many)
        calls = count // at_once
        begun = time.perf_counter()
        for _ in itertools.repeat(None, calls):
            put(item)
        return (time.perf_counter() - begun) / (calls * at_once)

    return measure


def puts(
    rounds: int, sizes: Sequence[int] = SIZES, window_bytes: int = WINDOW_BYTES
) -> dict[str, Any]:
    """Measure a put and a put of a batch, for each size, by turns."""
    results: dict[str, Any] = {}
    for size in sizes:
        for at_once in (1, AT_ONCE):
            measures = [
                measure_of(
                    size, ragged=ragged, at_once=at_once, window_bytes=window_bytes
                )
                for ragged in (True, False)
            ]
            for measure in measures:
                for _ in range(LAPS):
                    measure()
            pairs = [[measure() for measure in measures] for _ in range(rounds)]
            ragged_s, fixed_s = zip(*pairs, strict=True)
            ratio = paired_ratio(ragged_s, fixed_s)
            name = "put" if at_once == 1 else f"put_batch of {at_once}"
            results[f"{name}, {size} bytes"] = {
                "ragged_s": statistics.median(ragged_s),
                "fixed_s": statistics.median(fixed_s),
                "ratio": ratio.median,
                "ratio_range": ratio.range,
            }
    return {
        "goal": GOAL,
        "unit": "seconds for an example; ratio: ragged over fixed",
        "results": results,
    }


def print_puts(found: dict[str, Any]) -> None:
    """Print a line for each kind of put."""
    print("\nputs: time for one example, ragged over fixed")
    for name, row in found["results"].items():
        low, high = row["ratio_range"]
        print(
            f"{name:>32}: {row['ragged_s'] * 1e9:8.0f} ns, fixed "
            f"{row['fixed_s'] * 1e9:8.0f} ns, {row['ratio']:.2f} "
            f"({low:.2f} to {high:.2f})"
        )
