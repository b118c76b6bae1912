"""Claim 3: echoes times batch size, after Agarwal et al. 2020 (arXiv:2010.13639).

Fresh examples that stochastic gradient descent needs on a logistic regression until the
loss is within 1 % of the optimum, for batches of B and K echoes: K steps in a row on
each batch, which is the paper's algorithm; and example echoing through an EchoBuffer
with factor K, whose window holds K segments of one batch, or of eight. The constant
learning rate is tuned for each cell; then come other seeds, in groups, whose mean loss
has to reach the target.

Counts only, no times: the same on every machine, apart from how BLAS rounds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from echobuf.cli.bench.report import write_figures
from echobuf.cli.environment import environment
from laggards.echoes import Cell
from laggards.problem import Problem, make
from laggards.tuning import ABOVE, GROUPS, SEEDS, reached, tuned_rate
from options import make_parser

BATCHES = (16, 64, 256, 1024, 4096)
ECHOES = (1, 2, 4, 8, 16, 32)
WINDOWS = (1, 8)  # segments of example echoing's window, in batches
KEPT_AT_MOST = 1.5  # times the fresh examples of one echo, with the rate of one echo


def measured(problem: Problem, cell: Cell) -> dict[str, Any]:
    """Tune a cell, make its runs, and print the median."""
    rate = tuned_rate(problem, cell)
    groups = reached(problem, cell, rate)
    fresh = [group.fresh for group in groups]
    row = {
        **asdict(cell),
        "window": None if cell.unit == "batch" else cell.window,
        "learning_rate": rate,
        "fresh": fresh,
        "steps": [group.steps for group in groups],
        "median_fresh": statistics.median(fresh),
        "median_steps": statistics.median(group.steps for group in groups),
    }
    print(
        f"B {cell.batch_size:5} K {cell.echoes:3} {_title(cell):26} rate {rate:7.4f} "
        f"fresh {row['median_fresh']:9,.0f} ({min(fresh):,.0f} .. {max(fresh):,.0f}) "
        f"steps {row['median_steps']:7,.0f}",
        flush=True,
    )
    return row


def _title(cell: Cell) -> str:
    if cell.echoes == 1:
        return "no echoing"
    if cell.unit == "batch":
        return "K steps on a batch"
    return f"examples, window {cell.window:,}"


def with_rate_of_one(
    problem: Problem, cell: Cell, one: dict[str, Any]
) -> dict[str, Any]:
    """Run K steps on a batch with the learning rate that was tuned for one."""
    most = KEPT_AT_MOST * one["median_fresh"]
    groups = reached(problem, cell, one["learning_rate"], most)
    fresh = [None if math.isinf(group.fresh) else group.fresh for group in groups]
    return {**asdict(cell), "learning_rate": one["learning_rate"], "fresh": fresh}


def grid(
    problem: Problem, batches: Sequence[int], echoes: Sequence[int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """List all cells, and those of K steps on a batch again with one step's rate."""
    cells, kept = [], []
    for batch_size in batches:
        one = measured(problem, Cell("batch", batch_size, 1))
        cells.append(one)
        for count in (count for count in echoes if count > 1):
            cell = Cell("batch", batch_size, count)
            cells.append(measured(problem, cell))
            kept.append(with_rate_of_one(problem, cell, one))
            cells += [
                measured(problem, Cell("example", batch_size, count, segments))
                for segments in WINDOWS
            ]
    return cells, kept


def main(arguments: list[str] | None = None) -> None:
    """Measure the grid, print it, and write figures and a picture."""
    from laggards.picture import draw

    parser = make_parser(__doc__)
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES, metavar="B")
    parser.add_argument("--echoes", type=int, nargs="+", default=ECHOES, metavar="K")
    chosen = parser.parse_args(arguments)
    about = environment()
    problem = make()
    cells, kept = grid(problem, chosen.batches, chosen.echoes)
    figures = {
        "optimum": problem.optimum,
        "target": ABOVE * problem.optimum,
        "seeds_whose_mean_counts": SEEDS,
        "groups_of_seeds": GROUPS,
        "cells": cells,
        "rate_of_one_echo_kept": kept,
    }
    write_figures("laggard", chosen.out, figures, taken_in=about)
    print(f"written: {draw(cells, chosen.out / 'laggard.png')}")


if __name__ == "__main__":
    main()
