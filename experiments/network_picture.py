"""The picture of over_network.py: the speed-up over e, beside its ceiling."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from echobuf.cli.demo.settings import Condition
from network_ways import WITHOUT, SeedRuns

_COLOUR = "#1b7f6b"


def draw(
    found: Sequence[SeedRuns],
    ways: Sequence[Condition],
    total: dict[str, dict[str, Any]],
    path: Path,
) -> Path:
    """Draw a point for each seed and factor, medians, and the ceiling min(e, R)."""
    figure = Figure(figsize=(8, 4.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    known = [way for way in ways if "speedup" in total[way.key]]
    for way in known:
        values = list(total[way.key]["speedup"]["seeds"].values())
        axes.plot([way.factor] * len(values), values, ".", color=_COLOUR)
    if known:
        factors = [way.factor for way in known]
        medians = [total[way.key]["speedup"]["median"] for way in known]
        axes.plot(factors, medians, color=_COLOUR, label="sooner, median of the seeds")
        _fresh(axes, known, total)
        ratio = statistics.median(one.costs.ratio for one in found)
        bends = sorted({1.0, ratio, *map(float, factors)})
        axes.plot(
            bends,
            [min(e, ratio) for e in bends],
            color="black",
            linewidth=0.8,
            linestyle="--",
            label=f"ceiling min(e, R), R = {ratio:.1f}",
        )
        axes.set_xticks(factors)
        axes.legend(loc="best", frameon=False)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("e")
    axes.set_ylabel("times no echoing")
    axes.set_title(f"{len(found)} seeds, digits over a network")
    axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path


def _fresh(
    axes: Any, known: Sequence[Condition], total: dict[str, dict[str, Any]]
) -> None:
    fewer = [total[WITHOUT.key]["fresh"] / total[way.key]["fresh"] for way in known]
    axes.plot(
        [way.factor for way in known],
        fewer,
        color="#8a8f98",
        linewidth=0.8,
        label="fewer fresh examples, of the medians",
    )
