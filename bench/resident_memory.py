"""Resident memory of a buffer, over what its records need, and whether it grows.

The bound is 1.05 * (window + one segment + staging) records + 20 MB; staging is none
for an integer factor and half a segment otherwise. Each case runs in a process of its
own, which notes its resident memory before the buffer is made, when it is in steady
state, and at the end.
"""

from __future__ import annotations

import gc
import json
import math
import os
import subprocess
import sys
import threading
import time

import numpy as np

from echobuf import ClosedError, EchoBuffer, Field
from echobuf.cli.bench.report import write_figures
from running import make_parser
from sampling import RESULTS

BATCH = 256
CASES = {  # record bytes, window, factor, prefetch, batches
    "small records, e=4": (128, 100_000, 4, 0, 10**6),
    "small records, e=2.5": (128, 100_000, 2.5, 0, 10**5),
    "small records, auto, prefetch=2": (128, 100_000, "auto", 2, 10**5),
    "images, e=4": (64 * 64 * 3, 16_384, 4, 0, 10**4),
    "images, e=1.5, prefetch=2": (64 * 64 * 3, 16_384, 1.5, 2, 10**4),
}


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def allowed_records(window: int, factor: float | str) -> int:
    """Return the bytes of window, one segment and staging."""
    segments = 4 if factor == "auto" else math.ceil(float(factor))
    segment = math.ceil(window / segments)
    fractional = factor != "auto" and float(factor) != math.ceil(float(factor))
    return window + segment + (segment // 2 if fractional else 0)


def run(case: str) -> dict[str, float]:
    """Measure one case, in this process."""
    size, window, factor, prefetch, batches = CASES[case]
    chunk = {"x": np.zeros((1024, size), np.uint8)}
    before = resident_bytes()
    buffer = EchoBuffer(
        {"x": Field((size,), "u1")},
        batch_size=BATCH,
        window=window,
        factor=factor,
        prefetch=prefetch,
    )

    def feed() -> None:
        try:
            while True:
                buffer.put_batch(chunk)
        except ClosedError:
            pass

    producer = threading.Thread(target=feed)
    producer.start()
    warm = 4 * window // BATCH
    for _ in range(warm):
        buffer.next_batch()
    gc.collect()
    start, steady = time.perf_counter(), resident_bytes()
    peak = steady
    for index in range(batches):
        buffer.next_batch()
        if index % 1000 == 0:
            peak = max(peak, resident_bytes())
    seconds = time.perf_counter() - start
    peak = max(peak, resident_bytes())
    buffer.close()  # ends the producer's put, or its next one
    producer.join()
    allowed = 1.05 * allowed_records(window, factor) * size + 20e6
    return {
        "batches": batches,
        "seconds": seconds,
        "used_bytes": peak - before,
        "allowed_bytes": allowed,
        "share_of_allowed": (peak - before) / allowed,
        "growth_bytes": peak - steady,
        "said_bytes": buffer.stats().bytes_host,
    }


def main() -> None:
    options = make_parser(__doc__, RESULTS)
    options.add_argument("--case", choices=CASES, help="one alone, in this process")
    chosen = options.parse_args()
    if chosen.case:
        print(json.dumps(run(chosen.case)))
        return
    results = {}
    for case in CASES:
        done = subprocess.run(
            [sys.executable, __file__, "--case", case],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        row = results[case] = json.loads(done.stdout)
        print(
            f"{case:>32}: {row['used_bytes'] / 1e6:7.1f} MB of "
            f"{row['allowed_bytes'] / 1e6:7.1f} allowed "
            f"({row['share_of_allowed']:.2f}), grew by "
            f"{row['growth_bytes'] / 1e6:.1f} MB over {row['batches']:,} batches",
            flush=True,
        )
    write_figures("resident_memory", chosen.out, {"results": results})


if __name__ == "__main__":
    main()
