"""Results of the demo: verdicts, table, JSON and picture."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich import box
from rich.table import Table

from echobuf import __version__
from echobuf.analysis.cost_model import fresh_s
from echobuf.cli.demo.settings import Settings
from echobuf.cli.demo.training import Run
from echobuf.cli.environment import environment

_PACKAGES = ("numpy", "optree", "torch", "pillow", "scikit-learn", "rich", "matplotlib")
_USUAL = 80
_COLUMNS = ("seconds", "formula", "fresh", "steps", "factor", "wait s")
_EVEN = 0.02  # a difference in time below this share counts as none
_COLORS = ("#7f7f7f", "#1f77b4", "#d62728", "#2ca02c")
_LOWEST = 0.5  # the accuracy at which the picture begins, unless the target is lower


@dataclass(frozen=True)
class Costs:
    """Seconds per example on either side of the echo buffer, measured.

    Attributes:
        upstream_s: to fetch, decode and distort a fresh example.
        downstream_s: to train on one example.
    """

    upstream_s: float
    downstream_s: float

    @property
    def ratio(self) -> float:
        """Return R, the upstream's time over the downstream's."""
        return self.upstream_s / self.downstream_s


@dataclass(frozen=True)
class DemoResult:
    """Result of a demo: its runs, with the costs and the settings."""

    settings: Settings
    costs: Costs
    bandwidth: float  # the server's limit in bytes a second
    runs: tuple[Run, ...]  # the first one is the baseline

    def predicted_s(self, run: Run) -> float:
        """Return the time that the formula predicts for a run, in seconds."""
        costs, end = self.costs, run.end
        return end.fresh * fresh_s(costs.upstream_s, costs.downstream_s, end.factor)

    def verdicts(self) -> list[str]:
        """Return a line for each run but the first: whether and how much it paid."""
        baseline, *others = self.runs
        return [self._verdict(baseline, run) for run in others]

    def _verdict(self, baseline: Run, run: Run) -> str:
        title, goal = run.condition.title.capitalize(), f"{self.settings.target:.1%}"
        limit = f"within {self.settings.budget_s:.0f} s"
        if not run.reached:
            both = "" if baseline.reached else f", nor did {baseline.condition.title}"
            return f"{title} did not reach {goal} {limit}{both}: it did not pay."
        took = f"{title} reached {goal} in {run.end.seconds:.1f} s"
        if not baseline.reached:
            return f"{took}, {baseline.condition.title} not {limit}: it paid."
        other = f"{baseline.condition.title} ({baseline.end.seconds:.1f} s)"
        speedup = baseline.end.seconds / run.end.seconds
        if abs(speedup - 1.0) < _EVEN:
            return f"{took}, as did {other}: it made no difference."
        if speedup > 1.0:
            return f"{took}, {speedup:.2f} times sooner than {other}: it paid."
        return f"{took}, {1 / speedup:.2f} times later than {other}: it did not pay."


def table(outcome: DemoResult, width: int = _USUAL) -> Table:
    """Return the runs side by side, `width` >= 60 and at most 80 columns wide."""
    settings = outcome.settings
    result = Table(
        title=f"To {settings.target:.1%} test accuracy",
        caption="Same upstream, first weights, seed and learning rate "
        f"({settings.learning_rate:g}). In every run, also without echoing, loading "
        "runs on a background thread beside the training. The accuracy is the mean "
        f"of {settings.smoothing} evaluations in a row, one every "
        f"{settings.evaluate_every} steps; during them clock and upstream stand "
        "still. formula: fresh * max(t_upstream, factor * t_downstream).",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1) if width >= _USUAL else 0,
    )
    result.add_column("run", no_wrap=width >= _USUAL)
    for name in _COLUMNS:
        result.add_column(name, justify="right", no_wrap=True)
    for run in outcome.runs:
        end = run.end
        result.add_row(
            run.condition.title,
            f"{end.seconds:.1f}" if run.reached else f"not in {end.seconds:.0f}",
            f"{outcome.predicted_s(run):.1f}" if run.reached else "-",
            f"{end.fresh:,}",
            f"{end.steps:,}",
            f"{end.factor:.2f}",
            f"{end.waited_s:.1f}",
        )
    return result


def as_json(outcome: DemoResult, command_line: Sequence[str]) -> dict[str, Any]:
    """Return all figures, with the settings and versions to repeat them.

    A run that missed its target has `None` as its `seconds` and `predicted_s`, and else
    the figures at its end.
    """
    settings, costs = outcome.settings, outcome.costs
    return {
        "format": 1,
        "echobuf": __version__,
        "command_line": list(command_line),
        "seed": settings.seed,
        "target": settings.target,
        "settings": asdict(settings) | {"out": str(settings.out)},
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in _PACKAGES},
        "system": sys.platform,
        "environment": environment(),
        "measured": {
            "t_upstream_s": costs.upstream_s,
            "t_downstream_s": costs.downstream_s,
            "R": costs.ratio,
            "bandwidth_kb_s": outcome.bandwidth / 1000.0,
        },
        "runs": [_run(outcome, run) for run in outcome.runs],
        "verdicts": outcome.verdicts(),
    }


def _run(outcome: DemoResult, run: Run) -> dict[str, Any]:
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


def write_picture(outcome: DemoResult, path: Path) -> None:
    """Draw the smoothed test accuracy over the seconds of each run, as a PNG file."""
    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for index, run in enumerate(outcome.runs):
        color = _COLORS[index % len(_COLORS)]
        seconds = [point.seconds for point in run.points]
        smoothed = [point.smoothed for point in run.points]
        took = f"{run.end.seconds:.1f} s" if run.reached else "target not reached"
        label = f"{run.condition.title}: {took}, factor {run.end.factor:.2f}"
        axes.plot(seconds, smoothed, color=color, label=label)
        if run.reached:
            axes.plot(seconds[-1:], smoothed[-1:], "o", color=color)
    target = outcome.settings.target
    axes.axhline(target, color="black", linewidth=0.8, linestyle="--")
    axes.set_ylim(min(_LOWEST, target / 2), 1.0)
    axes.set_xlim(left=0.0)
    axes.set_xlabel("seconds")
    axes.set_ylabel(f"test accuracy (target {target:.1%})")
    axes.set_title(f"Training from a slow upstream, R = {outcome.costs.ratio:.1f}")
    axes.legend(loc="lower right", frameon=False)
    axes.grid(alpha=0.3)
    figure.savefig(path)
