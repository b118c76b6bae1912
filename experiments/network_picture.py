"""The picture of over_network.py: test accuracy over time, for each seed and way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from network_pair import Pair

_COLOURS = ("#7f7f7f", "#2ca02c")


def draw(pairs: list[Pair], target: float, path: Path) -> Path:
    """Draws a line for each run, with a point where it reached the target."""
    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for turn, pair in enumerate(pairs):
        for colour, run in zip(_COLOURS, (pair.without, pair.echoed), strict=True):
            points = [point for point in run.points if point.settled]
            x, y = [p.seconds for p in points], [p.smoothed for p in points]
            label = run.condition.title if turn == 0 else None
            axes.plot(x, y, color=colour, linewidth=1, label=label)
            if run.reached:
                axes.plot(x[-1:], y[-1:], "o", color=colour)
    axes.axhline(target, color="black", linewidth=0.8, linestyle="--")
    axes.set_xlim(left=0.0)
    axes.set_xlabel("seconds")
    axes.set_ylabel("test accuracy, mean of five evaluations")
    axes.set_title(f"{len(pairs)} seeds, digits over a network, R about 6, e = 5")
    if pairs:
        axes.legend(loc="lower right", frameon=False)
    axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path
