"""The table, and what the JSON file holds."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from rich import box
from rich.table import Table

from echobuf import __version__
from echobuf.cli.bench.environment import environment
from echobuf.cli.demo.outcome import Outcome
from echobuf.cli.demo.training import Run

__all__ = ["as_json", "table"]

_PACKAGES = ("numpy", "optree", "torch", "pillow", "scikit-learn", "rich", "matplotlib")
_USUAL = 80
_COLUMNS = ("seconds", "formula", "fresh", "steps", "factor", "wait s")


def table(outcome: Outcome, width: int = 80) -> Table:
    """The runs side by side, at most 80 columns wide.

    Args:
        outcome: The figures.
        width: Columns that there are, 60 at the least.
    """
    result = Table(
        title=f"To {outcome.settings.target:.1%} test accuracy",
        caption=_caption(outcome),
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1) if width >= _USUAL else 0,
    )
    result.add_column("run", no_wrap=width >= _USUAL)
    for name in _COLUMNS:
        result.add_column(name, justify="right", no_wrap=True)
    for run in outcome.runs:
        result.add_row(run.condition.title, *_cells(outcome, run))
    return result


def _cells(outcome: Outcome, run: Run) -> list[str]:
    end = run.end
    reached = run.reached
    return [
        f"{end.seconds:.1f}" if reached else f"not in {end.seconds:.0f}",
        f"{outcome.predicted_s(run):.1f}" if reached else "-",
        f"{end.fresh:,}",
        f"{end.steps:,}",
        f"{end.factor:.2f}",
        f"{end.waited_s:.1f}",
    ]


def _caption(outcome: Outcome) -> str:
    settings = outcome.settings
    return (
        "Same upstream, first weights, seed and learning rate "
        f"({settings.learning_rate:g}). In every run, also without echoing, loading "
        "runs on a background thread beside the training. The accuracy is the mean "
        f"of {settings.smoothing} evaluations in a row, one every "
        f"{settings.evaluate_every} steps; during them clock and upstream stand "
        "still. formula: fresh * max(t_upstream, factor * t_downstream)."
    )


def as_json(outcome: Outcome, command_line: Sequence[str]) -> dict[str, Any]:
    """All figures, with what is needed to judge and repeat them.

    Args:
        outcome: The figures.
        command_line: How the demo was called.

    Returns:
        A dict that `json` can write. A run that missed its target has `None` as its
        `seconds` and `predicted_s`; the other figures are those of its end.
    """
    settings = asdict(outcome.settings) | {"out": str(outcome.settings.out)}
    return {
        "format": 1,
        "echobuf": __version__,
        "command_line": list(command_line),
        "seed": outcome.settings.seed,
        "target": outcome.settings.target,
        "settings": settings,
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in _PACKAGES},
        "system": sys.platform,
        "environment": environment(),
        "measured": {
            "t_upstream_s": outcome.costs.upstream_s,
            "t_downstream_s": outcome.costs.downstream_s,
            "R": outcome.costs.ratio,
            "bandwidth_kb_s": outcome.bandwidth / 1000.0,
        },
        "runs": [_run(outcome, run) for run in outcome.runs],
        "verdicts": outcome.verdicts(),
    }


def _run(outcome: Outcome, run: Run) -> dict[str, Any]:
    end = run.end
    return {
        **asdict(run.condition),
        "reached": run.reached,
        "seconds": end.seconds if run.reached else None,
        "predicted_s": outcome.predicted_s(run) if run.reached else None,
        "fresh": end.fresh,
        "steps": end.steps,
        "effective_factor": end.factor,
        "waited_s": end.waited_s,
        "accuracy": end.smoothed,
        "curve": [asdict(point) for point in run.points],
    }
