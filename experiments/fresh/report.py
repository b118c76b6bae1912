"""Tables, result file and picture of what came out."""

from __future__ import annotations

import math
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from echobuf.cli.bench.report import write_figures
from fresh.picture import draw
from fresh.rates import SEEDS, TUNING_SEEDS, rate_of
from fresh.run import EVALUATE_EVERY, SMOOTHING
from fresh.search import CUT, Tuned
from workloads import Workload

__all__ = ["SETTINGS", "about_workload", "outcome_of", "report"]

SETTINGS = {
    "evaluated_every_steps": EVALUATE_EVERY,
    "mean_of_evaluations": SMOOTHING,
    "seeds": list(SEEDS),
    "tuning_seeds": list(TUNING_SEEDS),
    "tuning_cut": CUT,
}
"""The part of a result file that is the same for all searches."""

_VERSIONS = ("torch", "numpy", "scikit-learn")


def report(
    workloads: dict[str, Workload],
    tuned: dict[str, list[Tuned]],
    asked: int,
    out: Path,
    about: dict[str, Any],
) -> None:
    """Print a table for each workload, and write `fresh_examples.json` and a picture.

    Args:
        workloads: by name.
        tuned: what is done of each.
        asked: conditions that there are.
        out: the folder to write to.
        about: the environment.
    """
    for name, workload in workloads.items():
        title = f"{name}: fresh examples to {workload.target:g} {workload.measure}"
        Console(width=88).print(_table(title, tuned[name]))
        if left := asked - len(tuned[name]):
            print(f"{name}: {left} of {asked} conditions are not done")
    figures = {
        "versions": {name: version(name) for name in _VERSIONS},
        **SETTINGS,
        "workloads": {
            name: {
                **about_workload(workload),
                "conditions_not_done": asked - len(tuned[name]),
                "conditions": [_row(one, tuned[name]) for one in tuned[name]],
            }
            for name, workload in workloads.items()
        },
    }
    write_figures("fresh_examples", out, figures, taken_in=about)
    path = out / "fresh_examples.png"
    draw(workloads, tuned, path)
    print(f"written: {path}")


def share(one: Tuned, among: list[Tuned]) -> float | None:
    """Return the median over that without echoing; None if either missed the target."""
    plain = next(t.median for t in among if t.condition == one.condition.plain)
    both = one.median, plain
    return one.median / plain if all(map(math.isfinite, both)) else None


def about_workload(workload: Workload) -> dict[str, Any]:
    """Return the part of a result file that describes a workload."""
    return {"measure": workload.measure, "target": workload.target, **workload.about}


def outcome_of(one: Tuned) -> dict[str, Any]:
    """Return what a condition has given."""
    return {
        "echoing": one.condition.kind,
        "factor": one.condition.factor,
        "learning_rate": rate_of(one.fifths),
        "tuning": {f"{rate_of(k):g}": v for k, v in sorted(one.tried.items())},
        "fresh": one.fresh,
        "median": one.median if math.isfinite(one.median) else None,
    }


def _row(one: Tuned, among: list[Tuned]) -> dict[str, Any]:
    return {
        **outcome_of(one),
        "window_examples": one.condition.window,
        "batch_size": one.condition.batch_size,
        "over_no_echoing": share(one, among),
    }


def _table(title: str, tuned: list[Tuned]) -> Table:
    table = Table(title=title)
    for heading in ("echoing", "e", "window", "batch", "rate", "median", "min .. max"):
        table.add_column(heading, justify="left" if heading == "echoing" else "right")
    table.add_column("of none", justify="right")
    for one in tuned:
        condition, part = one.condition, share(one, tuned)
        table.add_row(
            condition.kind,
            *map(str, (condition.factor, condition.window, condition.batch_size)),
            f"{rate_of(one.fifths):g}",
            _number(one.median) if one.fresh else "",
            _range(one),
            "" if part is None else f"{part:.2f}",
        )
    return table


def _number(count: float) -> str:
    return f"{count:,.0f}" if math.isfinite(count) else "missed"


def _range(one: Tuned) -> str:
    if not one.fresh:
        return "not tried"
    counts = [math.inf if n is None else n for n in one.fresh]
    return f"{_number(min(counts))} .. {_number(max(counts))}"
