"""Claim 1: time = max(t_upstream, e * t_downstream) for each fresh example.

50 windows of fresh examples for each R = t_upstream / t_downstream and each factor e;
upstream and downstream only sleep. t_upstream is always the same. Read along e, with
one R, time should be a level up to e = R and rise from there on; read along
t_downstream, with one e, likewise up to R = e. Two lines, fitted to what was measured
without being told R, say where the knee really is. Filling and draining the window are
in all times. Time in a put or a draw is always charged; `harness_s` is the time that
the same loops cost for a fresh example with puts and draws that do nothing.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from echobuf import EchoBuffer, Field
from echobuf.cli.bench.report import write_figures
from echobuf.cli.environment import environment
from options import make_parser
from two_lines import TwoLines, fit

sys.path.append(str(Path(__file__).resolve().parents[1] / "bench"))
from pacing import AddedDelays, Step, Upstream, fill, harness_s, train

BATCH = 32
WINDOW = 512
RATIOS = (2, 3, 4, 5, 6, 8)
FACTORS = (1, 1.5, 2, 3.3, 5, 8, 12, 16)
HARNESS_WINDOWS = 10  # at most, of the no-op candidate
FEWEST = 2  # points on either side of a knee that is looked for


@dataclass(frozen=True)
class Cell:
    """One R and one e: seconds for a fresh example, measured and by the formula."""

    ratio: float
    factor: float
    seconds: float
    formula: float
    harness_s: float = 0.0

    @property
    def over_formula(self) -> float:
        return self.seconds / self.formula


@dataclass(frozen=True)
class Knee:
    """Point where the fitted lines meet, and the formula's point."""

    along: str
    fixed: float
    formula: float
    measured: float
    lines: TwoLines


def measure(
    ratio: float,
    factor: float,
    t_upstream: float,
    windows: int,
    prefetch: int,
    added: AddedDelays,
) -> Cell:
    """Measure an epoch of `windows` windows; upstream has a thread of its own."""
    t_downstream = t_upstream / ratio
    step_s = t_downstream * BATCH
    n = windows * WINDOW
    buffer = EchoBuffer(
        Field((), "i8"),
        batch_size=BATCH,
        window=WINDOW,
        factor=factor,
        prefetch=prefetch,
    )

    upstream = added.puts(Upstream([t_upstream] * n))
    producer = threading.Thread(target=fill, args=(upstream, buffer))
    start = time.perf_counter()
    producer.start()
    served = train(added.draws(buffer), Step(step_s))
    seconds = time.perf_counter() - start
    producer.join()
    assert abs(served - n * factor) <= math.ceil(WINDOW / math.ceil(factor))
    few = min(windows, HARNESS_WINDOWS) * WINDOW
    harness = harness_s(
        Upstream([t_upstream] * few), round(few * factor / BATCH), step_s
    )
    formula = max(t_upstream, factor * t_downstream)
    return Cell(ratio, factor, seconds / n, formula, harness)


def knees(cells: list[Cell]) -> list[Knee]:
    """Return the knees for each R along e, and for each e along t_downstream."""
    found = []
    for ratio in sorted({cell.ratio for cell in cells}):
        row = sorted((c for c in cells if c.ratio == ratio), key=lambda c: c.factor)
        x = [c.factor for c in row]
        if _both_sides(x, ratio):
            lines = fit(x, [c.seconds for c in row])
            found.append(Knee("e", ratio, ratio, lines.knee, lines))
    for factor in sorted({cell.factor for cell in cells}):
        column = sorted(
            (c for c in cells if c.factor == factor), key=lambda c: -c.ratio
        )
        x = [1 / c.ratio for c in column]  # t_downstream in units of t_upstream
        if _both_sides(x, 1 / factor):
            lines = fit(x, [c.seconds for c in column])
            found.append(Knee("t_downstream", factor, factor, 1 / lines.knee, lines))
    return found


def _both_sides(x: list[float], knee: float) -> bool:
    below, above = sum(v < knee for v in x), sum(v > knee for v in x)
    return min(below, above) >= FEWEST


def main(arguments: list[str] | None = None) -> None:
    """Measure the grid, print it with its knees, and write figures and a picture."""
    from knee_picture import draw

    parser = make_parser(__doc__)
    parser.add_argument("--windows", type=int, default=50)
    parser.add_argument("--upstream-us", type=float, default=150.0)
    parser.add_argument("--prefetch", type=int, default=0)
    parser.add_argument("--ratios", type=float, nargs="+", default=RATIOS, metavar="R")
    parser.add_argument(
        "--factors", type=float, nargs="+", default=FACTORS, metavar="E"
    )
    AddedDelays.add_options(parser)
    chosen = parser.parse_args(arguments)
    added = AddedDelays.chosen(chosen)
    about = environment()
    t_upstream = chosen.upstream_us * 1e-6
    cells = []
    print("measured time over the formula's")
    print("e \\ R " + "".join(f"{ratio:>8g}" for ratio in chosen.ratios))
    for factor in chosen.factors:
        row = [
            measure(ratio, factor, t_upstream, chosen.windows, chosen.prefetch, added)
            for ratio in chosen.ratios
        ]
        cells += row
        text = "".join(f"{cell.over_formula:8.3f}" for cell in row)
        print(f"{factor:>5g} " + text, flush=True)
    over = sorted(cell.over_formula for cell in cells)
    harness = [cell.harness_s / cell.formula for cell in cells]
    print(f"from {over[0]:.3f} to {over[-1]:.3f}, of which the harness", end=" ")
    print(f"{min(harness):.3f} to {max(harness):.3f}")
    found = knees(cells)
    for knee in found:
        fixed = "R" if knee.along == "e" else "e"
        print(f"{fixed} = {knee.fixed:g}: knee along {knee.along} at", end=" ")
        print(f"{knee.measured:.3f}, {knee.measured / knee.formula - 1:+.1%}")
    write_figures(
        "knee",
        chosen.out,
        {
            "unit": "seconds for a fresh example",
            "batch_size": BATCH,
            "window": WINDOW,
            "windows": chosen.windows,
            "t_upstream_us": chosen.upstream_us,
            "prefetch": chosen.prefetch,
            "added": asdict(added),
            "over_formula": {"least": over[0], "most": over[-1]},
            "knees": [asdict(knee) for knee in found],
            "results": [
                asdict(cell) | {"over_formula": cell.over_formula} for cell in cells
            ],
        },
        taken_in=about,
    )
    print(f"written: {draw(cells, found, t_upstream, chosen.out / 'knee.png')}")


if __name__ == "__main__":
    main()
