"""The picture of `growth.py`: time over that of the bytes alone, for each axis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_COLOURS = ("#1b7f6b", "#c2571a", "#4a5fa5")


def draw_picture(results: dict[str, Any], path: Path) -> None:
    """Draw a panel for each axis, with a line for each call."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    # The same small file for the same figures.
    matplotlib.rcParams.update({"svg.hashsalt": "growth", "svg.fonttype": "none"})
    figure = Figure(figsize=(4 * len(results), 3.2), layout="constrained")
    FigureCanvasSVG(figure)
    panels = figure.subplots(1, len(results), squeeze=False).flat
    for panel, (axis, found) in zip(panels, results.items(), strict=True):
        for colour, (what, beside) in zip(
            _COLOURS, found["times"].items(), strict=False
        ):
            rows = beside["the bytes alone"]
            ratios = [row["ratio"] for row in rows.values()]
            panel.plot(list(map(int, rows)), ratios, "o-", color=colour, label=what)
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_title(axis, loc="left", fontsize=10)
        panel.legend(fontsize=8, frameon=False)
        panel.spines[["top", "right"]].set_visible(False)
    figure.supylabel("time over that of the bytes alone", fontsize=9)
    figure.savefig(path, metadata={"Date": None})
    print(f"written: {path}")
