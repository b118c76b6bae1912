"""The picture: test accuracy over time for all runs."""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from echobuf.cli.demo.outcome import Outcome

__all__ = ["write_picture"]

_COLORS = ("#7f7f7f", "#1f77b4", "#d62728", "#2ca02c")
_LOWEST = 0.5  # the accuracy at which the picture begins, unless the target is lower


def write_picture(outcome: Outcome, path: Path) -> None:
    """Draws the smoothed test accuracy over the seconds of each run.

    Args:
        outcome: The runs.
        path: The PNG file to write.
    """
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
