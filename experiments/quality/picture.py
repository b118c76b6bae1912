"""The picture: final errors of every seed, beside the band of no echoing."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fresh.conditions import FACTORS
from fresh.picture import COLOURS
from quality.compare import plain_of
from quality.search import Finished
from workloads import Workload

__all__ = ["draw"]

_SIDES = {"no echoing": 0.0, "batch": -0.2, "after": 0.0, "before": 0.2}


def draw(
    workloads: dict[str, Workload], finished: dict[str, list[Finished]], path: Path
) -> Path:
    """Draw a panel for each workload, with a point for each seed that did not diverge.

    The band reaches from the least to the greatest error without echoing.
    """
    figure = Figure(figsize=(5.5 * len(workloads), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(workloads), squeeze=False)[0]
    for panel, (name, workload) in zip(panels, workloads.items(), strict=True):
        _panel(panel, finished[name])
        panel.set_title(f"{name}: {workload.measure}", loc="left", fontsize=9)
    figure.savefig(path, dpi=110)
    return path


def _panel(panel: Any, finished: Sequence[Finished]) -> None:
    places = {1: 0, **{factor: i for i, factor in enumerate(FACTORS, start=1)}}
    plain, named = plain_of(finished), set()
    if plain is not None and (errors := _errors(plain)):
        panel.axhspan(min(errors), max(errors), color=COLOURS["no echoing"], alpha=0.2)
    for one in finished:
        condition, errors = one.condition, _errors(one)
        kind, colour = condition.kind, COLOURS[condition.kind]
        place = places[condition.factor] + _SIDES[kind]
        if errors:
            label = None if kind in named else kind
            named.add(kind)
            panel.plot([place] * len(errors), errors, ".", color=colour, label=label)
        if not one.diverged:
            panel.plot(place, statistics.mean(errors), "_", color=colour, markersize=14)
        else:
            panel.annotate(
                f"{one.diverged} diverged",
                (place, 0.01),
                xycoords=("data", "axes fraction"),
                rotation=90,
                va="bottom",
                ha="center",
                fontsize=7,
            )
    panel.set_xticks(list(places.values()), [f"e = {factor}" for factor in places])
    panel.set_xlim(-0.5, len(places) - 0.5)
    if named:
        panel.legend(frameon=False, fontsize=8)
    panel.tick_params(labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)


def _errors(one: Finished) -> list[float]:
    return [outcome.error for outcome in one.outcomes if outcome.error is not None]
