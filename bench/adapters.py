"""Cost of tensors and JAX's arrays beside NumPy's: a batch of two leaves.

Batches of 32 examples of float32[64] and int32[], all ready. In one process, by turns:
the median of a batch from `echobuf.EchoLoader`, `echobuf.torch.EchoLoader` and
`echobuf.jax.EchoLoader`; and, for the same two leaves of NumPy's, bare
`torch.from_numpy`, `jax.dlpack.from_dlpack` and `jax.device_put`.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import torch

import echobuf.jax
import echobuf.torch
from echobuf.cli.bench.report import write_figures
from echobuf.cli.bench.rounds import paired_ratio
from echobuf.cli.environment import environment
from sampling import RESULTS

BATCH, WINDOW = 32, 64
ROUNDS, CALLS = 60, 200
PLAIN, TENSORS, ARRAYS = (
    "echobuf.EchoLoader",
    "echobuf.torch.EchoLoader",
    "echobuf.jax.EchoLoader",
)


class Window:
    """Fills the window, and yields nothing more until it is told to end."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for number in range(4 * WINDOW):
            yield {"x": np.full(64, number, np.float32), "id": np.int32(number)}
        self.ended.wait()


def draws(loader_class: type, window: Window) -> Callable[[], Any]:
    """Return a function that draws one batch from such a loader."""
    loader = loader_class(
        window, batch_size=BATCH, window=WINDOW, factor="auto", max_factor=2**31 - 1
    )
    epoch = iter(loader)
    for _ in range(1000):
        next(epoch)
    return epoch.__next__


def bare(convert: Callable[[Any], Any]) -> Callable[[], Any]:
    """Return the same two leaves, in memory that JAX can share."""
    raw = np.zeros(BATCH * 65 * 4 + 128, np.uint8)
    raw = raw[-raw.ctypes.data % 64 :]
    x = raw[: BATCH * 64 * 4].view(np.float32).reshape(BATCH, 64)
    number = raw[BATCH * 64 * 4 :][: BATCH * 4].view(np.int32)
    return lambda: (convert(x), convert(number))


def measure(call: Callable[[], Any]) -> float:
    """Return the microseconds of a call."""
    begun = time.perf_counter()
    for _ in itertools.repeat(None, CALLS):
        call()
    return (time.perf_counter() - begun) / CALLS * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    about = environment()
    window = Window()
    calls = {
        PLAIN: draws(echobuf.EchoLoader, window),
        TENSORS: draws(echobuf.torch.EchoLoader, window),
        ARRAYS: draws(echobuf.jax.EchoLoader, window),
        "torch.from_numpy": bare(torch.from_numpy),
        "jax.dlpack.from_dlpack": bare(jax.dlpack.from_dlpack),
        "jax.device_put": bare(jax.device_put),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(options.rounds):
        for name, call in calls.items():
            times[name].append(measure(call))
    window.ended.set()
    medians = {name: statistics.median(each) for name, each in times.items()}
    for name, each in times.items():
        print(f"{name:26} {medians[name]:7.2f} us  {min(each):.2f} .. {max(each):.2f}")
    over = {
        name: [
            mine - plain for mine, plain in zip(times[name], times[PLAIN], strict=True)
        ]
        for name in (TENSORS, ARRAYS)
    }
    cost = {name: statistics.median(each) for name, each in over.items()}
    ratio = paired_ratio(over[ARRAYS], times["jax.dlpack.from_dlpack"])
    print(f"tensors cost {cost[TENSORS]:.2f} us a batch")
    print(f"JAX's arrays cost {cost[ARRAYS]:.2f} us a batch,", end=" ")
    print(f"{ratio.median:.2f} of bare dlpack")
    figures = {
        "versions": {"jax": jax.__version__, "torch": torch.__version__},
        "microseconds": {
            name: {"median": medians[name], "min": min(each), "max": max(each)}
            for name, each in times.items()
        },
        "torch_cost_us": cost[TENSORS],
        "jax_cost_us": cost[ARRAYS],
        "jax_cost_over_dlpack": ratio.median,
        "ratio_range": ratio.range,
    }
    write_figures("adapters", options.out, figures, taken_in=about)


if __name__ == "__main__":
    main()
