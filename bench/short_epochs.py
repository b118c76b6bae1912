"""Wall time of short epochs, over max(t_upstream, e * t_downstream).

Epochs of three windows with a slow upstream, for R = t_upstream / t_downstream and
factors e; upstream and downstream only sleep. Filling and draining the window costs a
good part of an epoch as short, unless the next epoch's upstream runs meanwhile:
`overlap_epochs=True`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import numpy as np

from echobuf import EchoLoader
from echobuf.cli.bench.options import make_parser
from echobuf.cli.bench.pacing import Pace
from echobuf.cli.bench.report import write_figures
from sampling import RESULTS

BATCH = 32
WINDOW = 512
WINDOWS = 3
RATIOS = (2, 4, 8)
FACTORS = (1, 1.5, 2, 4, 8)


class Upstream:
    """Numbers, each of which takes `t_upstream` seconds to make."""

    def __init__(self, t_upstream: float) -> None:
        self.t_upstream = t_upstream

    def __iter__(self) -> Iterator[np.int64]:
        pace = Pace(self.t_upstream)
        called = returned = time.perf_counter()
        for number in range(WINDOWS * WINDOW):
            pace.work(called, returned)
            called = time.perf_counter()
            yield np.int64(number)
            returned = time.perf_counter()


def run(
    ratio: float, factor: float, slower_s: float, epochs: int, overlap: bool
) -> float:
    """Measured time over the bound, where the slower side takes `slower_s` a record."""
    t_upstream = slower_s * min(1.0, ratio / factor)
    t_downstream = t_upstream / ratio
    loader = EchoLoader(
        Upstream(t_upstream),
        batch_size=BATCH,
        window=WINDOW,
        factor=factor,
        overlap_epochs=overlap,
    )
    n = WINDOWS * WINDOW
    start = time.perf_counter()
    pace = Pace(t_downstream * BATCH)
    for _ in range(epochs):
        served = 0
        epoch = iter(loader)
        while True:
            called = time.perf_counter()
            try:
                batch = next(epoch)
            except StopIteration:
                break
            served += len(batch)
            pace.work(called, time.perf_counter())
        assert abs(served - n * factor) <= math.ceil(WINDOW / math.ceil(factor))
    seconds = time.perf_counter() - start
    return seconds / (epochs * n * max(t_upstream, factor * t_downstream))


def main() -> None:
    options = make_parser(__doc__, RESULTS)
    options.add_argument("--slower-us", type=float, default=150.0)
    options.add_argument("--epochs", type=int, default=17)
    chosen = options.parse_args()
    results: dict[str, dict[str, dict[str, float]]] = {}
    for overlap in (True, False):
        name = "overlap_epochs" if overlap else "one after the other"
        rows = results[name] = {}
        print(name + "\ne \\ R " + "".join(f"{ratio:>8}" for ratio in RATIOS))
        for factor in FACTORS:
            cells = [
                run(ratio, factor, chosen.slower_us * 1e-6, chosen.epochs, overlap)
                for ratio in RATIOS
            ]
            rows[str(factor)] = dict(zip(map(str, RATIOS), cells, strict=True))
            print(f"{factor:>5} " + "".join(f"{c:8.3f}" for c in cells), flush=True)
    worst = {
        name: max(max(row.values()) for row in rows.values())
        for name, rows in results.items()
    }
    print(f"worst: {worst}")
    write_figures(
        "short_epochs",
        chosen.out,
        {
            "unit": "wall time / (n * max(t_upstream, e * t_downstream))",
            "batch_size": BATCH,
            "window": WINDOW,
            "windows_an_epoch": WINDOWS,
            "epochs": chosen.epochs,
            "slower_us": chosen.slower_us,
            "worst": worst,
            "results": results,
        },
    )


if __name__ == "__main__":
    main()
