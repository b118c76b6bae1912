"""The picture: fresh examples by kind of echoing, with lowest and highest."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fresh.conditions import BATCH, Condition
from fresh.search import Tuned
from workloads import Workload

__all__ = ["COLOURS", "draw"]

_GROUPS = ("factors", "windows", "batches")
COLOURS = {
    "no echoing": "#8a8f98",
    "batch": "#1f77b4",
    "after": "#d98a29",
    "before": "#1b7f6b",
}


def draw(
    workloads: dict[str, Workload], tuned: dict[str, list[Tuned]], path: Path
) -> None:
    """Draw a column for each workload, with panels by factor, window and batch size."""
    drawn = {
        group: {name: _of_group(tuned[name], group) for name in workloads}
        for group in _GROUPS
    }
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
        for panel, shown in zip(row, rows.values(), strict=True):
            _bars(panel, shown, group)
    for panel, (name, one) in zip(panels[0], workloads.items(), strict=True):
        title = f"{name}: fresh examples to {one.target:g} {one.measure}"
        panel.set_title(title, loc="left", fontsize=9)
    figure.savefig(path, dpi=110)


def _of_group(tuned: list[Tuned], group: str) -> list[Tuned]:
    """Return the conditions of a panel: for windows and batches with the usual ones."""
    if group == "factors":
        return [one for one in tuned if one.condition.group == group]
    echoes = {_echo(one.condition) for one in tuned if one.condition.group == group}
    shown = [
        one
        for one in tuned
        if one.condition.group in ("factors", group)
        and (one.condition.factor == 1 or _echo(one.condition) in echoes)
    ]
    return sorted(shown, key=lambda one: _place(one.condition))


def _echo(condition: Condition) -> tuple[str, int]:
    return condition.kind, condition.factor


def _place(condition: Condition) -> tuple[int, ...]:
    kind = list(COLOURS).index(condition.kind)
    return condition.factor, kind, condition.batch_size, condition.window


def _label(condition: Condition, group: str) -> str:
    echo = condition.kind
    if condition.kind != "no echoing":
        echo += f", e = {condition.factor}"
        if group == "windows":
            echo += f", window {condition.window}"
    return f"{echo}, batches of {condition.batch_size}" if group == "batches" else echo


def _bars(panel: Any, shown: list[Tuned], group: str) -> None:
    for place, one in enumerate(shown):
        reached = [n for n in one.fresh if n is not None]
        if math.isfinite(one.median):
            below, above = one.median - min(reached), max(reached) - one.median
            panel.barh(
                place,
                one.median,
                color=COLOURS[one.condition.kind],
                xerr=[[below], [above]],
                error_kw={"capsize": 3, "elinewidth": 1},
            )
            if one.condition.factor == 1 and one.condition.batch_size == BATCH:
                panel.axvline(one.median, color="black", linewidth=0.7, linestyle="--")
        missed = len(one.fresh) - len(reached)
        if not one.fresh:
            panel.text(0, place, " not tried", va="center", fontsize=8)
        elif missed:
            text = f" {missed} of {len(one.fresh)} missed"
            panel.text(0, place, text, va="center", fontsize=8)
    labels = [_label(one.condition, group) for one in shown]
    panel.set_yticks(range(len(shown)), labels, fontsize=8)
    panel.invert_yaxis()
    panel.set_xlim(left=0)
    panel.xaxis.set_major_formatter("{x:,.0f}")
    panel.locator_params(axis="x", nbins=6)
    panel.tick_params(axis="x", labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)
