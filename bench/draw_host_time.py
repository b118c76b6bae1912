"""Time of the host for a draw on a device: with a driver that does nothing.

Batches of 256 records of float32[32] and an int64 from a window of 4,096. Every call of
the driver returns at once, and a batch's arrays are there already, so that what is
timed is `next_batch` from Python without the allocation: planning, arguments, and the
calls, which are counted. On the default stream, and on a stream of the caller's. It
needs a C++ compiler, and no GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import echobuf
from echobuf.cli.bench.report import write_figures
from echobuf.cli.environment import environment
from echobuf.cuda.device import set_opener
from null_device import NullDevice, built

HERE = Path(__file__).parent
SPEC = {
    "row": echobuf.Field((32,), np.float32),
    "label": echobuf.Field((), np.int64),
}
BATCH, WINDOW = 256, 4096
DRAWS, ROUNDS = 5_000, 11


@dataclass(frozen=True)
class Case:
    """Records that fill a window, and how they are drawn from it.

    Attributes:
        spec: of a record.
        records: as `put_batch` takes them, `WINDOW` of them.
        options: of the buffer, beside those that all cases have.
    """

    spec: Any
    records: Any
    stream: int = 0
    options: dict[str, Any] = field(default_factory=dict)


def draws(library: Path, case: Case, counted: Any) -> tuple[float, float]:
    """Return the seconds and the driver's calls of a draw."""
    set_opener(lambda ordinal: NullDevice(library, case.stream))
    try:
        with echobuf.EchoBuffer(
            case.spec,
            batch_size=BATCH,
            window=WINDOW,
            factor="auto",  # with no upstream left: as often as may be
            max_factor=1000,
            device="cuda",
            **case.options,
        ) as buffer:
            buffer.put_batch(case.records, timeout=60)
            for _ in range(100):
                buffer.next_batch(timeout=60)
            before, start = counted(), time.perf_counter()
            for _ in range(DRAWS):
                buffer.next_batch()
            seconds = (time.perf_counter() - start) / DRAWS
            return seconds, (counted() - before) / DRAWS
    finally:
        set_opener(None)


def main(name: str, description: str | None, cases: dict[str, Case]) -> None:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    taken_in = environment()
    seconds: dict[str, list[float]] = {of: [] for of in cases}
    calls: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        library = built(Path(folder))
        counted = ctypes.CDLL(str(library)).null_driver_calls
        counted.restype = ctypes.c_uint64
        for _ in range(options.rounds):
            for of, case in cases.items():
                taken, calls[of] = draws(library, case, counted)
                seconds[of].append(taken)
    results = {
        of: {
            "median_s": statistics.median(rounds),
            "min_s": min(rounds),
            "max_s": max(rounds),
            "driver_calls": calls[of],
        }
        for of, rounds in seconds.items()
    }
    for of, row in results.items():
        print(
            f"{of}: {row['median_s'] * 1e6:.2f} us a draw "
            f"({row['min_s'] * 1e6:.2f} to {row['max_s'] * 1e6:.2f}), "
            f"{row['driver_calls']:.1f} calls of the driver"
        )
    write_figures(
        name,
        options.out,
        {"batch_size": BATCH, "rounds": options.rounds, "results": results},
        taken_in=taken_in,
    )


if __name__ == "__main__":
    ROWS = {name: np.zeros((WINDOW, *of.shape), of.dtype) for name, of in SPEC.items()}
    main(
        "draw_host_time",
        __doc__,
        {
            "default stream": Case(SPEC, ROWS),
            "another stream": Case(SPEC, ROWS, stream=0x7777),
        },
    )
