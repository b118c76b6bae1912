"""The picture of knee.py: time over the factor, and over t_downstream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from knee import Cell, Knee


def draw(cells: list[Cell], knees: list[Knee], unit: float, path: Path) -> Path:
    """Draw points as measured, the formula as lines, knees as crosses.

    Args:
        cells: the points.
        knees: the crosses.
        unit: t_upstream, in which times are told.
        path: of the picture.
    """
    figure = Figure(figsize=(11, 4.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    along_e, along_d = figure.subplots(1, 2)
    ratios = sorted({cell.ratio for cell in cells})
    for place, ratio in enumerate(ratios):
        row = [(c.factor, c.seconds / unit) for c in cells if c.ratio == ratio]
        found = [k for k in knees if k.along == "e" and k.fixed == ratio]
        _series(along_e, row, 1 / ratio, _colour(place, ratios), f"R = {ratio:g}")
        _crosses(along_e, [(k.measured, k.lines.level / unit) for k in found])
    factors = sorted({cell.factor for cell in cells})
    for place, factor in enumerate(factors):
        column = [(1 / c.ratio, c.seconds / unit) for c in cells if c.factor == factor]
        found = [k for k in knees if k.along != "e" and k.fixed == factor]
        _series(along_d, column, factor, _colour(place, factors), f"e = {factor:g}")
        _crosses(along_d, [(1 / k.measured, k.lines.level / unit) for k in found])
    along_e.set_xlabel("echoing factor e")
    along_d.set_xlabel("1 / R = t_downstream / t_upstream")
    for axes in (along_e, along_d):
        axes.set_ylabel("time for a fresh example / t_upstream")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.legend(frameon=False, ncols=2, fontsize=8)
        axes.grid(alpha=0.3)
    figure.suptitle(
        "points: measured; lines: max(t_upstream, e · t_downstream); "
        "crosses: where lines fitted to the points meet",
        fontsize=10,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path


def _colour(place: int, of: list[float]) -> Any:
    return colormaps["viridis"](0.9 * place / max(1, len(of) - 1))


def _series(
    axes: Any, points: list[tuple[float, float]], slope: float, colour: Any, label: str
) -> None:
    x, y = zip(*sorted(points), strict=True)
    fine = np.geomspace(min(x), max(x), 200)
    axes.plot(fine, np.maximum(1, slope * fine), color=colour, linewidth=1)
    axes.plot(x, y, "o", color=colour, markersize=4, label=label)


def _crosses(axes: Any, points: list[tuple[float, float]]) -> None:
    for x, y in points:
        axes.plot(x, y, "x", color="black", markersize=8)
