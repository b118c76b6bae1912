"""Predictions of `echobuf.analysis.analyze`, beside measured epochs.

Upstream and the step only wait, for delays that are known: upstream is 0.5 to 8 times
as slow as the step, and its times are constant, uniform, or heavy-tailed (Pareto with
index 2.5, one slow example in a thousand takes ten times the mean). `analyze` is told
nothing of that. For each factor its report predicts the time of an epoch, which is then
timed with an `EchoLoader`: 60 cells in less than ten minutes. `harness_s` of a cell is
the time that the same loops cost for an example with puts and draws that do nothing.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from echobuf import EchoLoader
from echobuf.analysis import Report, analyze
from echobuf.cli.bench.report import write_figures
from echobuf.cli.environment import environment
from pacing import AddedDelays, Step, Upstream, harness_s, train
from sampling import RESULTS

BATCH = 32
WINDOW = 1024
RATIOS = (0.5, 2.0, 4.0, 8.0)
JITTERS = ("constant", "uniform", "heavy-tailed")
FACTORS: tuple[float | str, ...] = (1, 2, 4, 8, "auto")
SLOWER_S = 0.5e-3  # an example of the slower side
PARETO = 2.5
FEWEST = 2  # windows in the shortest epoch
HARNESS_EXAMPLES = WINDOW // 2  # of the no-op candidate


@dataclass(frozen=True)
class Cell:
    """One epoch: what was predicted, and what it took."""

    ratio: float
    jitter: str
    factor: float | str
    measured_ratio: float
    examples: int
    predicted_s: float
    seconds: float
    predicted_factor: float
    effective_factor: float
    harness_s: float

    @property
    def error(self) -> float:
        """Return the relative error of the predicted time for the same steps."""
        predicted = self.predicted_s / self.predicted_factor
        return predicted / (self.seconds / self.effective_factor) - 1


def delays(jitter: str, mean_s: float, count: int) -> list[float]:
    """Return the time of each example, the same in every epoch, as for a data set."""
    chance = np.random.default_rng(len(jitter))
    if jitter == "constant":
        return [mean_s] * count
    if jitter == "uniform":
        return list(chance.uniform(0, 2 * mean_s, count))
    return list((chance.pareto(PARETO, count) + 1) * mean_s * (PARETO - 1) / PARETO)


def timed(
    upstream: Upstream, step_s: float, factor: float | str, added: AddedDelays
) -> tuple[float, float]:
    """Return the seconds of an epoch, and its effective factor."""
    slowed = added.puts(upstream)
    loader = EchoLoader(slowed, batch_size=BATCH, window=WINDOW, factor=factor)
    begin = time.perf_counter()
    train(added.draws(loader), Step(step_s))
    return time.perf_counter() - begin, loader.stats().effective_factor


def row(ratio: float, jitter: str, options: argparse.Namespace) -> list[Cell]:
    """Measure all factors for one upstream, which is analyzed once."""
    upstream_s = SLOWER_S * min(1, ratio)
    step_s = BATCH * SLOWER_S * min(1, 1 / ratio)
    whole = delays(jitter, upstream_s, options.windows * WINDOW)
    report = analyze(
        Upstream(whole),
        Step(step_s),
        batch_size=BATCH,
        window=WINDOW,
        seconds=options.seconds,
    )
    cells = []
    for factor in FACTORS:
        examples = examples_for(report, factor, len(whole))
        of = replace(report.measurements, length=examples)
        predicted = Report(of).predict(factor)
        upstream = Upstream(whole[:examples])
        seconds, echoes = timed(upstream, step_s, factor, AddedDelays.chosen(options))
        few = Upstream(whole[:HARNESS_EXAMPLES])
        cell = Cell(
            ratio,
            jitter,
            factor,
            report.ratio.mean,
            examples,
            predicted.epoch_s,
            seconds,
            predicted.effective_factor,
            echoes,
            harness_s(few, round(HARNESS_EXAMPLES * echoes / BATCH), step_s),
        )
        print(
            f"{ratio:4} {jitter:13} {factor!s:5} {cell.predicted_s:7.2f} s "
            f"{cell.seconds:7.2f} s {100 * cell.error:+6.1f} %",
            flush=True,
        )
        cells.append(cell)
    return cells


def examples_for(report: Report, factor: float | str, count: int) -> int:
    """Return the whole windows that take as long as `count` upstream alone."""
    slower = report.predict(factor).fresh_s / report.predict(1).fresh_s
    windows = round(count / slower / WINDOW)
    return min(count, max(FEWEST, windows) * WINDOW)


def main() -> None:
    """Print a line for each cell, and the worst."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--seconds", type=float, default=14.0, help="an analysis (14)")
    parser.add_argument("--windows", type=int, default=8, help="in an epoch (8)")
    parser.add_argument("--ratios", type=float, nargs="+", default=RATIOS)
    parser.add_argument("--jitters", nargs="+", choices=JITTERS, default=JITTERS)
    AddedDelays.add_options(parser)
    options = parser.parse_args()
    about = environment()
    print("   R jitter        e      predicted   measured    error")
    cells = [
        cell
        for ratio in options.ratios
        for jitter in options.jitters
        for cell in row(ratio, jitter, options)
    ]
    errors = [abs(cell.error) for cell in cells]
    within = sum(error <= 0.05 for error in errors)
    harness = max(cell.harness_s * cell.examples / cell.seconds for cell in cells)
    print(
        f"{len(cells)} cells, worst {max(errors):.1%}, median "
        f"{statistics.median(errors):.1%}, within 5 %: {within}; "
        f"the harness is {harness:.1%} of an epoch at most"
    )
    figures = {
        "batch_size": BATCH,
        "window": WINDOW,
        "slower_s": SLOWER_S,
        "pareto_index": PARETO,
        "seconds_of_an_analysis": options.seconds,
        "added": asdict(AddedDelays.chosen(options)),
        "worst_error": max(errors),
        "median_error": statistics.median(errors),
        "within_5_percent": within,
        "cells": [asdict(cell) | {"error": cell.error} for cell in cells],
    }
    write_figures("predictions", options.out, figures, taken_in=about)


if __name__ == "__main__":
    main()
