"""The picture of the trial."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from auto_trial.hindsight import WORTHS, Trial
from auto_trial.measures import recent_factor, uses
from auto_trial.upstreams import Shape

_SHOWN = (
    ("steady, R 4", "#1b7f6b"),
    ("jumps, R 1, 8, 1", "#c2571a"),
    ("Pareto 1.5, R 4", "#3b6fb6"),
    ("bursts of a window, R 4", "#8a4fa3"),
)
_LAST = 4  # windows: at R 8, eight segments of 16
_JUMPS = "jumps, R 1, 8, 1"


def draw(trials: Mapping[str, list[Trial]], shape: Shape, path: Path) -> Path:
    """Draw the trials by scenario; some for the first seed only."""
    figure = Figure(figsize=(12, 11), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, 2)
    shown = [(name, colour) for name, colour in _SHOWN if name in trials]
    if _JUMPS in trials:
        _follow(panels[0, 0], trials[_JUMPS][0], shape)
    _slower(panels[0, 1], trials)
    _counts(panels[1, 0], trials, shown, shape)
    _distances(panels[1, 1], trials, shown, shape)
    for panel in panels.flat:
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    print(f"written: {path}")
    return path


def _follow(panel: Any, trial: Trial, shape: Shape) -> None:
    passes = trial.auto[0].passes
    done, factor = recent_factor(passes, _LAST * shape.window)
    windows = done / shape.window
    times = trial.upstreams[0].times
    served = np.array([p.first + p.count for p in passes])
    mean = np.convolve(times, np.full(shape.batch_size, 1 / shape.batch_size), "same")
    now = mean[np.minimum(served, len(mean) - 1)]
    panel.plot(windows, now, color="#b8bcc2", linewidth=3, label="R of upstream")
    panel.plot(windows, factor, color="#c2571a", linewidth=1, label="auto")
    panel.set(
        xlim=(0, windows[-1] / 2),
        ylim=(0, 1.5 * shape.max_factor),
        xlabel="windows of draws",
        ylabel=f"factor over the last {_LAST} windows of draws",
    )
    panel.set_title("jumps: the factor follows R", loc="left", fontsize=10)
    panel.legend(frameon=False)


def _slower(panel: Any, trials: Mapping[str, list[Trial]]) -> None:
    names = list(trials)
    places = np.arange(len(names))
    for number, worth in enumerate(WORTHS):
        worst = [100 * max(t.slower[worth] for t in trials[name]) for name in names]
        height = 0.8 / len(WORTHS)
        shade = 0.25 + 0.55 * number / (len(WORTHS) - 1)
        panel.barh(
            places + (number - 1.5) * height,
            worst,
            height,
            color=str(1 - shade),
            label=f"{worth:g}",
        )
    panel.axvline(3, color="#c2571a", linewidth=1)
    panel.set_yticks(places, names, fontsize=7)
    panel.invert_yaxis()
    panel.set_xlabel("% slower than the best fixed factor in hindsight, worst seed")
    panel.set_title("by what an echo is worth; line: 3 %", loc="left", fontsize=10)
    panel.legend(frameon=False, fontsize=8)


def _counts(panel: Any, trials: Any, shown: Any, shape: Shape) -> None:
    width = 0.8 / max(1, len(shown))
    for number, (name, colour) in enumerate(shown):
        counts = uses(trials[name][0].auto[0].passes).counts
        share = np.bincount(counts.astype(int), minlength=shape.max_factor + 1)
        panel.bar(
            np.arange(len(share)) + (number - (len(shown) - 1) / 2) * width,
            share / share.sum(),
            width,
            color=colour,
            label=name,
        )
    panel.set(xlabel="uses of a fresh example", ylabel="share of the examples")
    panel.set_xlim(0.4, shape.max_factor + 0.6)
    panel.set_title("use counts", loc="left", fontsize=10)
    if shown:
        panel.legend(frameon=False, fontsize=8)


def _distances(panel: Any, trials: Any, shown: Any, shape: Shape) -> None:
    for name, colour in shown:
        distances = uses(trials[name][0].auto[0].passes).distances / shape.window
        panel.hist(
            distances,
            bins=np.linspace(0, 2, 81),
            histtype="step",
            density=True,
            color=colour,
        )
    panel.set(xlabel="draws between two uses, in windows", ylabel="density")
    panel.set_title("distances between uses", loc="left", fontsize=10)
