"""The picture: reward over generated samples, and over updates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from policies.tuning import Tuned, smoothed

__all__ = ["draw"]

_COLOURS = {1: "#8a8f98", 2: "#3b6fb6", 4: "#c2571a"}
_LINES = {None: "-", 2: "--", 1: "-.", 0: ":"}


def draw(tuned: Mapping[str, list[Tuned]], path: Path) -> Path:
    """Draw a row for each learner: medians, and between which rewards seeds lie."""
    figure = Figure(figsize=(11, 4 * len(tuned)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(tuned), 2, squeeze=False, sharey="row")
    for row, (name, conditions) in zip(panels, tuned.items(), strict=True):
        for panel, column, label in zip(
            row, (0, 1), ("generated samples", "updates"), strict=True
        ):
            for one in conditions:
                _line(panel, one, column)
            panel.set_xlabel(label)
            panel.spines[["top", "right"]].set_visible(False)
        row[0].set_title(name, loc="left", fontsize=10)
        row[0].set_ylabel("reward")
        row[0].legend(fontsize=8, frameon=False)
    figure.savefig(path)
    print(f"written: {path}")
    return path


def _line(panel: Any, one: Tuned, column: int) -> None:
    curves = np.array([smoothed(row) for row in one.rows])
    at, rewards = np.median(curves[..., column], 0), curves[..., 2]
    condition = one.condition
    colour = _COLOURS[condition.factor]
    style = _LINES[condition.max_staleness]
    middle = np.median(rewards, 0)
    panel.plot(at, middle, style, color=colour, linewidth=1.5, label=str(condition))
    if condition.max_staleness is None:
        least, most = rewards.min(0), rewards.max(0)
        panel.fill_between(at, least, most, color=colour, alpha=0.15, linewidth=0)
