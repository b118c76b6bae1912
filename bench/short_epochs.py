"""Wall time of short epochs, over max(t_upstream, e * t_downstream).

Epochs of three windows with a slow upstream, for R = t_upstream / t_downstream and
factors e; upstream and downstream only sleep. Filling and draining the window costs a
good part of an epoch as short, unless the next epoch's upstream runs meanwhile:
`overlap_epochs=True`. `harness_s` is the time that the same loops cost for a fresh
example with puts and draws that do nothing.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass

from echobuf import EchoLoader
from echobuf.cli.bench.report import write_figures
from pacing import AddedDelays, Step, Upstream, harness_s, train
from running import make_parser
from sampling import RESULTS

BATCH = 32
WINDOW = 512
WINDOWS = 3
RATIOS = (2, 4, 8)
FACTORS = (1, 1.5, 2, 4, 8)


@dataclass(frozen=True)
class Times:
    """The times of both sides, of which the slower takes `slower_s` a fresh example."""

    ratio: float
    factor: float
    slower_s: float

    @property
    def upstream_s(self) -> float:
        """Return the time of an example."""
        return self.slower_s * min(1.0, self.ratio / self.factor)

    @property
    def step_s(self) -> float:
        """Return the time of a step."""
        return BATCH * self.upstream_s / self.ratio

    @property
    def upstream(self) -> Upstream:
        """Return an epoch's examples."""
        return Upstream([self.upstream_s] * WINDOWS * WINDOW)

    @property
    def harness_s(self) -> float:
        """Measure the seconds that the loops alone take for a fresh example."""
        draws = round(WINDOWS * WINDOW * self.factor / BATCH)
        return harness_s(self.upstream, draws, self.step_s)


def run(times: Times, epochs: int, overlap: bool, added: AddedDelays) -> float:
    """Return the measured time over the bound."""
    factor = times.factor
    loader = EchoLoader(
        added.puts(times.upstream),
        batch_size=BATCH,
        window=WINDOW,
        factor=factor,
        overlap_epochs=overlap,
    )
    n = WINDOWS * WINDOW
    start = time.perf_counter()
    step = Step(times.step_s)
    for _ in range(epochs):
        served = train(added.draws(loader), step)
        assert abs(served - n * factor) <= math.ceil(WINDOW / math.ceil(factor))
    seconds = time.perf_counter() - start
    return seconds / (epochs * n * times.slower_s)


def main() -> None:
    options = make_parser(__doc__, RESULTS)
    options.add_argument("--slower-us", type=float, default=150.0)
    options.add_argument("--epochs", type=int, default=17)
    AddedDelays.add_options(options)
    chosen = options.parse_args()
    added = AddedDelays.chosen(chosen)
    grid = {
        (factor, ratio): Times(ratio, factor, chosen.slower_us * 1e-6)
        for factor in FACTORS
        for ratio in RATIOS
    }
    harness = {
        str(factor): {str(ratio): grid[factor, ratio].harness_s for ratio in RATIOS}
        for factor in FACTORS
    }
    results: dict[str, dict[str, dict[str, float]]] = {}
    for overlap in (True, False):
        name = "overlap_epochs" if overlap else "one after the other"
        rows = results[name] = {}
        print(name + "\ne \\ R " + "".join(f"{ratio:>8}" for ratio in RATIOS))
        for factor in FACTORS:
            cells = [
                run(grid[factor, ratio], chosen.epochs, overlap, added)
                for ratio in RATIOS
            ]
            rows[str(factor)] = dict(zip(map(str, RATIOS), cells, strict=True))
            print(f"{factor:>5} " + "".join(f"{c:8.3f}" for c in cells), flush=True)
    worst = {
        name: max(max(row.values()) for row in rows.values())
        for name, rows in results.items()
    }
    most = max(max(row.values()) for row in harness.values())
    print(
        f"worst: {worst}; the harness {1e6 * most / chosen.slower_us:.3f} of it at most"
    )
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
            "added": asdict(added),
            "harness_s": harness,
            "worst": worst,
            "results": results,
        },
    )


if __name__ == "__main__":
    main()
