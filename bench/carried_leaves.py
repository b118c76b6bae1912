"""The cost of leaves that are no arrays: of a string, and of a string and None.

Loaders over the same examples `{"x": float32[34], "y": int}` without such leaves and
with them, in one process, by turns. A turn fills a window with all examples, up to the
first batch (puts), and then draws each example once (draws), after which its objects
are forgotten. The differences are medians over the rounds, a round being one turn of
each kind, in another order each time.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import echobuf
from echobuf.cli.bench.report import write_figures
from echobuf.cli.environment import environment
from sampling import RESULTS

ROUNDS, EXAMPLES, BATCH = 30, 20_480, 256

ARRAYS = [np.full(34, i, np.float32) for i in range(64)]
KINDS: dict[str, list[str]] = {
    "arrays alone": [],
    "a string": ["path"],
    "a string and None": ["path", "nothing"],
}


def examples(more: list[str]) -> list[dict[str, Any]]:
    """Return examples with these leaves beside the arrays."""
    return [
        {
            "x": ARRAYS[i % len(ARRAYS)],
            "y": i,
            **{name: f"images/{i}.png" if name == "path" else None for name in more},
        }
        for i in range(EXAMPLES)
    ]


def turn(upstream: list[dict[str, Any]]) -> tuple[float, float]:
    """Return microseconds an example put, and an example drawn."""
    gc.collect()
    with echobuf.EchoLoader(
        upstream, batch_size=BATCH, window=EXAMPLES, factor=1
    ) as loader:
        begun = time.perf_counter()
        batches = iter(loader)
        next(batches)
        filled = time.perf_counter()
        drawn = sum(len(batch["y"]) for batch in batches)
        ended = time.perf_counter()
    return (filled - begun) / EXAMPLES * 1e6, (ended - filled) / drawn * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    about = environment()
    upstreams = {kind: examples(more) for kind, more in KINDS.items()}
    order, rounds = [*KINDS], []
    for _ in range(options.rounds):
        rounds.append({kind: turn(upstreams[kind]) for kind in order})
        order.append(order.pop(0))
    figures: dict[str, Any] = {}
    for kind in KINDS:
        put, draw = (
            statistics.median(each[kind][i] for each in rounds) for i in range(2)
        )
        more_put, more_draw = (
            statistics.median(
                each[kind][i] - each["arrays alone"][i] for each in rounds
            )
            for i in range(2)
        )
        figures[kind] = {
            "put_us": put,
            "draw_us": draw,
            "more_put_us": more_put,
            "more_draw_us": more_draw,
        }
        print(
            f"{kind:18} put {put:5.2f} us (+{more_put:.3f})   "
            f"use {draw:5.3f} us (+{more_draw:.3f})",
            flush=True,
        )
    write_figures("carried_leaves", options.out, {"kinds": figures}, taken_in=about)


if __name__ == "__main__":
    main()
