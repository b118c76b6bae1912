"""The cost of a `put` of one example, for the objects that datasets yield.

Each kind beside the same values as NumPy arrays and scalars: in one process, by turns,
a buffer that has room for all of the examples, reset between the turns. The ratio is
the median of those of the rounds, a round being one turn of each kind.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

import echobuf
from echobuf.cli.bench.report import write_figures
from echobuf.cli.bench.rounds import paired_ratio
from echobuf.cli.environment import environment
from sampling import RESULTS

ROUNDS, CALLS = 40, 4096

IMAGE = np.zeros((64, 64, 3), np.uint8)
VECTOR = np.zeros(32, np.float32)

# Name: what is put, and the same as NumPy's.
KINDS: dict[str, tuple[Any, Any]] = {
    "image, int": ((IMAGE, 3), (IMAGE, np.int64(3))),
    "image, float": ((IMAGE, 0.5), (IMAGE, np.float64(0.5))),
    "image, bool": ((IMAGE, True), (IMAGE, np.bool_(True))),
    "vector, int": ((VECTOR, 3), (VECTOR, np.int64(3))),
    "vector, float": ((VECTOR, 0.5), (VECTOR, np.float64(0.5))),
    "vector, complex": ((VECTOR, 1j), (VECTOR, np.complex128(1j))),
    "dict of vector, float": (
        {"x": VECTOR, "y": 0.5},
        {"x": VECTOR, "y": np.float64(0.5)},
    ),
    "vector, 0-d array": ((VECTOR, np.array(3)), (VECTOR, np.int64(3))),
    "tensor, int": ((torch.zeros(32), 3), (VECTOR, np.int64(3))),
    "tensor, 0-d tensor": ((torch.zeros(32), torch.tensor(3)), (VECTOR, np.int64(3))),
    "image tensor, int": ((torch.from_numpy(IMAGE), 3), (IMAGE, np.int64(3))),
    "JAX array, int": ((jnp.zeros(32), 3), (VECTOR, np.int64(3))),
    "memoryview, int": ((memoryview(VECTOR), 3), (VECTOR, np.int64(3))),
}


def puts(example: Any) -> Callable[[], float]:
    """Return a function that measures a put of that example, in microseconds."""
    buffer = echobuf.EchoBuffer(example, window=2 * CALLS, batch_size=1, factor=1)

    def measure() -> float:
        buffer.reset()
        put = buffer.put
        begun = time.perf_counter()
        for _ in itertools.repeat(None, CALLS):
            put(example)
        return (time.perf_counter() - begun) / CALLS * 1e6

    return measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    about = environment()
    figures: dict[str, Any] = {}
    for name, (example, plain) in KINDS.items():
        measures = puts(example), puts(plain)
        for measure in measures:
            measure()  # touches the memory
        rounds = [[measure() for measure in measures] for _ in range(options.rounds)]
        own, numpys = zip(*rounds, strict=True)
        ratio = paired_ratio(own, numpys)
        figures[name] = {
            "us": statistics.median(own),
            "numpy_us": statistics.median(numpys),
            "ratio": ratio.median,
            "ratio_range": ratio.range,
        }
        each = figures[name]
        print(
            f"{name:22} {each['us']:6.2f} us  NumPy's {each['numpy_us']:6.2f} us  "
            f"{ratio.median:.2f} of it ({ratio.least:.2f} to {ratio.most:.2f})",
            flush=True,
        )
    versions = {"torch": torch.__version__, "jax": jax.__version__}
    write_figures(
        "put_objects",
        options.out,
        {"versions": versions, "puts": figures},
        taken_in=about,
    )


if __name__ == "__main__":
    main()
