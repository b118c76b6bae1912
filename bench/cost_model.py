"""The cost model of several ranks, beside runs with injected delays.

Ranks are threads that only wait: for storage and peers, whose rates they share, for
preparing and for training. Which examples come from where is counted on a random epoch,
so what is fetched from peers is no part of what is given. Where ranks read, exchange
and prepare in step, an epoch should take what the model says; where they do not, no
longer than that, and no less than its bound. `harness_s` is the time of an epoch of the
same threads in which nothing takes time.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import asdict, dataclass
from typing import Any

from echobuf.analysis import cost_model
from echobuf.analysis.cost_model import Costs
from echobuf.cli.bench.report import write_figures
from echobuf.cli.environment import environment
from rank_machine import MODES, Job, Machine, sources
from running import make_parser
from sampling import RESULTS

LOCAL_BATCH = 64
MOST_STEPS = 64
RANKS = (1, 4, 8)
SHARES = (0.35, 0.65, 1.0)
FREE = Costs(*[1e-9] * 4)  # no cost, as near as rates can be
RATES = {  # examples a second: storage and peers for all, preparing and training of one
    "storage is slow": (4000, 16000, 3000, 16000),
    "the network is slow": (16000, 5000, 3000, 16000),
    "preparing is slow": (16000, 32000, 2000, 10000),
    "training is slow": (16000, 16000, 5000, 2000),
}


@dataclass(frozen=True)
class Cell:
    """One epoch: what was predicted, and what it took."""

    rates: str
    job: Job
    mode: str
    predicted_moved: float
    moved: float
    least_s: float
    predicted_s: float
    seconds: float
    harness_s: float

    @property
    def error(self) -> float:
        return self.predicted_s / self.seconds - 1

    @property
    def is_within(self) -> bool:
        """Return whether the time is within 5 % of the prediction or its bounds."""
        if self.mode == MODES[0]:
            return abs(self.error) <= 0.05
        return 0.95 * self.least_s <= self.seconds <= 1.05 * self.predicted_s


def jobs(ranks: int, examples: int) -> list[Job]:
    """List the ways of loading for `ranks` ranks."""
    steps = min(MOST_STEPS, examples // (ranks * LOCAL_BATCH))
    ways = ("partitioned",) if ranks == 1 else ("partitioned", "locality-aware")
    return [
        Job("no cache", 0.0, ranks, LOCAL_BATCH, steps),
        *(Job(way, a, ranks, LOCAL_BATCH, steps) for a in SHARES for way in ways),
    ]


def moved_by(job: Job) -> float:
    """Return the modelled share of the examples that come from peers."""
    if job.way == "locality-aware":
        return cost_model.moved_locality_aware(job.share, job.ranks, job.local_batch)
    return cost_model.moved_partitioned(job.share, job.ranks)


def measure(name: str, job: Job, mode: str) -> Cell:
    """Predict an epoch, and run it."""
    costs = Costs(*(1 / rate for rate in RATES[name]))
    missed, moved = 1 - job.share, moved_by(job)
    in_step, least = (
        job.examples * cost_model.epoch_s(costs, job.ranks, loading)
        for loading in (
            cost_model.loading_s(costs, job.ranks, missed, moved),
            cost_model.least_loading_s(costs, job.ranks, missed, moved),
        )
    )
    counted = sources(job)[:, :, 1].sum() / job.examples
    seconds = Machine(job, costs, mode).run()
    harness_s = Machine(job, FREE, mode).run()
    cell = Cell(
        name, job, mode, moved, float(counted), least, in_step, seconds, harness_s
    )
    print(
        f"{name:20} {job.ranks:2} {job.way:14} {job.share:5.0%} "
        f"{mode:15} {moved:6.1%} {counted:6.1%} "
        f"{least:7.3f} {in_step:7.3f} {seconds:7.3f} s {100 * cell.error:+6.1f} %",
        flush=True,
    )
    return cell


def main() -> None:
    """Print a line for each cell, and the worst."""
    parser: argparse.ArgumentParser = make_parser(__doc__, RESULTS)
    parser.add_argument("--examples", type=int, default=8192, help="in an epoch (8192)")
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS)
    parser.add_argument("--rates", nargs="+", choices=RATES, default=list(RATES))
    options = parser.parse_args()
    about = environment()
    columns = zip(
        ("moved", "really", "least", "model", "took"), (6, 6, 7, 7, 7), strict=True
    )
    print(f"{'':60}{' '.join(f'{name:>{width}}' for name, width in columns)}     error")
    cells = [
        measure(name, job, mode)
        for name in options.rates
        for ranks in options.ranks
        for job in jobs(ranks, options.examples)
        for mode in (MODES if ranks == max(options.ranks) else MODES[:1])
    ]
    errors = [abs(cell.error) for cell in cells if cell.mode == MODES[0]]
    harness = max(cell.harness_s / cell.seconds for cell in cells)
    beyond = [cell for cell in cells if not cell.is_within]
    print(
        f"in step: {len(errors)} cells, worst {max(errors):.1%}, median "
        f"{statistics.median(errors):.1%}; not within 5 % of what is predicted, or of "
        f"its bounds: {len(beyond)} of {len(cells)}; the harness is {harness:.1%} of "
        "an epoch at most"
    )
    figures: dict[str, Any] = {
        "local_batch": LOCAL_BATCH,
        "examples": options.examples,
        "rates": RATES,
        "worst_error_in_step": max(errors),
        "median_error_in_step": statistics.median(errors),
        "cells_in_step": len(errors),
        "cells": len(cells),
        "not_within_5_percent": len(beyond),
        "results": [asdict(each) | {"error": each.error} for each in cells],
    }
    write_figures("cost_model", options.out, figures, taken_in=about)


if __name__ == "__main__":
    main()
