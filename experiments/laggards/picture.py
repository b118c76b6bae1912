"""Fresh examples to the target over echoes: a panel a unit, a line a batch size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import viridis
from matplotlib.figure import Figure

__all__ = ["draw"]

Row = Mapping[str, Any]

_PANELS: tuple[tuple[str, Callable[[Row], bool]], ...] = (
    ("K steps on each batch", lambda row: row["unit"] == "batch"),
    (
        "example echoing, window of K batches",
        lambda row: row["unit"] == "example" and row["segments"] == 1,
    ),
    (
        "example echoing, window of 8 K batches",
        lambda row: row["unit"] == "example" and row["segments"] > 1,
    ),
)


def draw(cells: Sequence[Row], path: Path) -> Path:
    """Draw the cells; no echoing begins each line. Dashed: 1 / K of it."""
    figure = Figure(figsize=(11, 4), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (title, chosen) in zip(
        figure.subplots(1, 3, sharey=True), _PANELS, strict=True
    ):
        _panel(axes, cells, chosen)
        axes.set_title(title, fontsize=10)
    first = figure.axes[0]
    first.set_ylabel("fresh examples to the target")
    first.legend(title="batch size B", fontsize=8, frameon=False)
    figure.savefig(path)
    return path


def _panel(axes: Axes, cells: Sequence[Row], chosen: Callable[[Row], bool]) -> None:
    sizes = sorted({row["batch_size"] for row in cells})
    for index, size in enumerate(sizes):
        rows = [row for row in cells if row["batch_size"] == size]
        line = [row for row in rows if row["echoes"] == 1 or chosen(row)]
        line.sort(key=lambda row: row["echoes"])
        echoes = [row["echoes"] for row in line]
        middle = [row["median_fresh"] for row in line]
        colour = viridis(0.9 * index / max(1, len(sizes) - 1))
        axes.plot(echoes, middle, "o-", color=colour, markersize=4, label=f"{size:,}")
        least, most = zip(
            *((min(row["fresh"]), max(row["fresh"])) for row in line), strict=True
        )
        axes.fill_between(echoes, least, most, color=colour, alpha=0.2, linewidth=0)
        ideal = [middle[0] / count for count in echoes]
        axes.plot(echoes, ideal, "--", color=colour, linewidth=0.7)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ticks = sorted({row["echoes"] for row in cells})
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xlabel("echoes K")
    axes.grid(alpha=0.3)
