"""The picture: fresh examples by kind of echoing, with lowest and highest."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fresh.conditions import Condition
from fresh.search import Tuned
from workloads import Workload

__all__ = ["draw"]

_GROUPS = ("factors", "windows", "batches")
_COLOURS = {
    "no echoing": "#8a8f98",
    "batch": "#1f77b4",
    "after": "#d98a29",
    "before": "#1b7f6b",
}


def draw(
    workloads: dict[str, Workload], tuned: dict[str, list[Tuned]], path: Path
) -> None:
    """A column for each workload; a panel each for factors, windows, batch sizes."""
    drawn = {
        group: {name: _of_group(tuned[name], group) for name in workloads}
        for group in _GROUPS
    }
    drawn = {group: rows for group, rows in drawn.items() if any(rows.values())}
    if not drawn:
        return
    heights = [1.2 + 0.24 * max(map(len, rows.values())) for rows in drawn.values()]
    figure = Figure(figsize=(11, sum(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(
        len(drawn),
        len(workloads),
        squeeze=False,
        gridspec_kw={"height_ratios": heights},
    )
    for row, (group, rows) in zip(panels, drawn.items(), strict=True):
        for panel, (name, shown) in zip(row, rows.items(), strict=True):
            _bars(panel, shown, group)
            if row is panels[0]:
                target = workloads[name].target
                panel.set_title(
                    f"{name}: fresh examples to {target:g} {workloads[name].measure}",
                    loc="left",
                    fontsize=9,
                )
    figure.savefig(path, dpi=110)


def _of_group(tuned: list[Tuned], group: str) -> list[Tuned]:
    """What is shown in a panel: for windows, what has the usual one, too."""
    if group != "windows":
        return [one for one in tuned if one.condition.group == group]
    echoes = {_echo(one.condition) for one in tuned if one.condition.group == group}
    shown = [
        one
        for one in tuned
        if one.condition.group != "batches" and _echo(one.condition) in echoes
    ]
    return sorted(shown, key=lambda one: (one.condition.factor, one.condition.window))


def _echo(condition: Condition) -> tuple[str, int]:
    return condition.kind, condition.factor


def _label(condition: Condition, group: str) -> str:
    if group == "windows":
        return f"{condition.kind}, e = {condition.factor}, window {condition.window}"
    if group == "batches":
        return f"{condition.kind}, batches of {condition.batch_size}"
    plain = condition.kind == "no echoing"
    return condition.kind if plain else f"{condition.kind}, e = {condition.factor}"


def _bars(panel: Any, shown: list[Tuned], group: str) -> None:
    for place, one in enumerate(shown):
        reached = [n for n in one.fresh if n is not None]
        if math.isfinite(one.median):
            below, above = one.median - min(reached), max(reached) - one.median
            panel.barh(
                place,
                one.median,
                color=_COLOURS[one.condition.kind],
                xerr=[[below], [above]],
                error_kw={"capsize": 3, "elinewidth": 1},
            )
        missed = len(one.fresh) - len(reached)
        if not one.fresh:
            panel.text(0, place, " not tried", va="center", fontsize=8)
        elif missed:
            panel.text(0, place, f" {missed} of {len(one.fresh)} missed", va="center")
        if one.condition.kind == "no echoing" and math.isfinite(one.median):
            panel.axvline(one.median, color="black", linewidth=0.7, linestyle="--")
    labels = [_label(one.condition, group) for one in shown]
    panel.set_yticks(range(len(shown)), labels, fontsize=8)
    panel.invert_yaxis()
    panel.set_xlim(left=0)
    panel.xaxis.set_major_formatter("{x:,.0f}")
    panel.tick_params(axis="x", labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)
