"""Duplicates, the nearest re-uses and the accuracy of each order."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from shuffles.conditions import KINDS

__all__ = ["draw"]

Row = Mapping[str, Any]

_COLOURS = dict(zip(KINDS, ("#1b7f6b", "#c44e52", "#dd9a5b"), strict=True))
_NAMES = dict(
    zip(
        KINDS,
        (
            "echobuf: passes",
            "tf.data: repeat, shuffle",
            "the same, as many bytes",
        ),
        strict=True,
    )
)


def draw(figures: Mapping[str, Any], path: Path) -> Path:
    """Draw a column for each memory that was trained in."""
    accuracy = figures["accuracy"]
    memories = sorted({row["memory"] for row in accuracy})
    order = [row for row in figures["order"] if row["memory"] in memories]
    figure = Figure(figsize=(9, 3 * 2.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(3, len(memories), squeeze=False, sharey="row")
    panels = (
        ("duplicates in a batch", order, lambda row: [row["duplicates"]]),
        ("nearest 1 % of re-uses (draws)", order, lambda r: [r["nearest"]]),
        ("test accuracy", accuracy, lambda row: row["accuracy"]),
    )
    for panel, (title, rows, values) in zip(grid, panels, strict=True):
        for axes, memory in zip(panel, memories, strict=True):
            _bars(axes, [row for row in rows if row["memory"] == memory], values)
        panel[0].set_ylabel(title, fontsize=9)
    for axes, memory in zip(grid[0], memories, strict=True):
        axes.set_title(f"memory of {memory:,} records")
    grid[0][0].legend(fontsize=8, frameon=False)
    for axes in grid[2]:
        axes.set_ylim(bottom=min(min(row["accuracy"]) for row in accuracy) - 0.05)
        axes.set_xlabel("factor e")
    figure.savefig(path)
    return path


def _bars(
    axes: Axes, rows: Sequence[Row], values: Callable[[Row], Sequence[float]]
) -> None:
    factors = sorted({row["factor"] for row in rows})
    width = 0.8 / len(KINDS)
    for index, kind in enumerate(KINDS):
        of_kind = sorted(
            (row for row in rows if row["kind"] == kind), key=lambda row: row["factor"]
        )
        places = [i + (index - 1) * width for i in range(len(of_kind))]
        found = [values(row) for row in of_kind]
        axes.bar(
            places,
            [statistics.mean(some) for some in found],
            width,
            color=_COLOURS[kind],
            label=_NAMES[kind],
        )
        for place, some in zip(places, found, strict=True):
            if len(some) > 1:
                axes.plot([place] * 2, [min(some), max(some)], "k-", linewidth=0.9)
    axes.set_xticks(range(len(factors)), [str(factor) for factor in factors])
    axes.grid(axis="y", alpha=0.3)
