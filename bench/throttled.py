"""Wall time with a slow upstream, over max(t_upstream, e * t_downstream).

50 windows of fresh examples for each R = t_upstream / t_downstream and each factor e;
upstream and downstream only sleep. A ratio of 1 is what the formula of the paper
promises; filling and draining the window are in it.
"""

from __future__ import annotations

import math
import threading
import time

import numpy as np

from echobuf import EchoBuffer, Field
from echobuf.cli.bench.options import make_parser
from echobuf.cli.bench.pacing import Pace
from echobuf.cli.bench.report import write_figures
from sampling import RESULTS

BATCH = 32
WINDOW = 512
WINDOWS = 50
RATIOS = (2, 4, 6, 8)
FACTORS = (1, 1.5, 2, 3.3, 5, 8)


def run(ratio: float, factor: float, slower_s: float, prefetch: int) -> float:
    """Measured time over the bound, where the slower side takes `slower_s` a record."""
    t_upstream = slower_s * min(1.0, ratio / factor)
    t_downstream = t_upstream / ratio
    n = WINDOWS * WINDOW
    buffer = EchoBuffer(
        Field((), "i8"),
        batch_size=BATCH,
        window=WINDOW,
        factor=factor,
        prefetch=prefetch,
    )

    def produce() -> None:
        pace = Pace(t_upstream)
        called = returned = time.perf_counter()
        for i in range(n):
            pace.work(called, returned)
            called = time.perf_counter()
            buffer.put(np.int64(i))
            returned = time.perf_counter()
        buffer.close()

    producer = threading.Thread(target=produce)
    start = time.perf_counter()
    producer.start()
    pace = Pace(t_downstream * BATCH)
    served = 0
    while True:
        called = time.perf_counter()
        try:
            batch = buffer.next_batch()
        except StopIteration:
            break
        served += len(batch)
        pace.work(called, time.perf_counter())
    seconds = time.perf_counter() - start
    producer.join()
    assert abs(served - n * factor) <= math.ceil(WINDOW / math.ceil(factor))
    return seconds / (n * max(t_upstream, factor * t_downstream))


def main() -> None:
    options = make_parser(__doc__, RESULTS)
    options.add_argument("--slower-us", type=float, default=150.0)
    options.add_argument("--prefetch", type=int, default=0)
    chosen = options.parse_args()
    rows = {}
    print("e \\ R " + "".join(f"{ratio:>8}" for ratio in RATIOS))
    for factor in FACTORS:
        cells = [
            run(ratio, factor, chosen.slower_us * 1e-6, chosen.prefetch)
            for ratio in RATIOS
        ]
        rows[str(factor)] = dict(zip(map(str, RATIOS), cells, strict=True))
        print(f"{factor:>5} " + "".join(f"{cell:8.3f}" for cell in cells), flush=True)
    worst = max(max(row.values()) for row in rows.values())
    print(f"worst: {worst:.3f}")
    write_figures(
        "throttled",
        chosen.out,
        {
            "unit": "wall time / (n * max(t_upstream, e * t_downstream))",
            "batch_size": BATCH,
            "window": WINDOW,
            "windows": WINDOWS,
            "slower_us": chosen.slower_us,
            "prefetch": chosen.prefetch,
            "worst": worst,
            "results": rows,
        },
    )


if __name__ == "__main__":
    main()
