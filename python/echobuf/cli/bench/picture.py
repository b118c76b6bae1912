"""The chart of `echobuf bench`: a panel a question, a bar a candidate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from echobuf.cli.bench.questions import QUESTIONS
from echobuf.cli.bench.rounds import Measured, Outcome

__all__ = ["draw"]

_OWN, _OTHER = "#1b7f6b", "#b8bcc2"


def draw(answers: Mapping[str, Mapping[str, Outcome]], path: Path) -> Path:
    """Draws the speed of each candidate over the reference of its question."""
    heights = [1.0 + 0.32 * len(answer) for answer in answers.values()]
    figure = Figure(figsize=(8, sum(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(
        len(answers), squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    for row, (name, answer) in zip(panels, answers.items(), strict=True):
        _panel(row[0], QUESTIONS[name][1], answer)
    figure.savefig(path, dpi=120)
    return path


def _panel(panel: Any, title: str, answer: Mapping[str, Outcome]) -> None:
    measured = [o for o in answer.values() if isinstance(o, Measured)]
    bars_of = {o.candidate.name: o.ratio.median for o in measured if o.ratio}
    names, speeds = list(bars_of), list(bars_of.values())
    colours = [_OWN if name.startswith("echobuf") else _OTHER for name in names]
    bars = panel.barh(names, speeds, color=colours)
    panel.bar_label(bars, [f"{speed:.2f}" for speed in speeds], padding=3)
    panel.invert_yaxis()
    panel.margins(x=0.12)
    panel.set_title(title, loc="left", fontsize=10)
    panel.set_xlabel("speed over the reference", fontsize=8)
    panel.spines[["top", "right"]].set_visible(False)
