"""The report's picture: predictions for each factor, and measured points."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from echobuf.analysis import cost_model, units
from echobuf.errors import OptionError

if TYPE_CHECKING:
    from echobuf.analysis.report import Report

_PREDICTED, _UPSTREAM, _STEP, _MEASURED = "#1b7f6b", "#7f7f7f", "#1f77b4", "#d62728"
_OVERLAPPED = "without echoing"


def write_picture(report: Report, path: Path, measured: Mapping[float, float]) -> None:
    """Write the picture to `path`.

    Raises:
        OptionError: the file cannot be written.
    """
    figure = Figure(figsize=(10, 4.2), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    _times(left, report, measured)
    _speedups(right, report, measured)
    figure.suptitle(report.message, fontsize=10)
    try:
        figure.savefig(path)
    except OSError as error:
        raise OptionError(
            f"`path` is {str(path)!r}, which cannot be written: "
            f"{error.strerror or error}."
        ) from None


def _times(axes: Any, report: Report, measured: Mapping[float, float]) -> None:
    """Draw the time per fresh example: of either side, and of both together."""
    fixed = _fixed(report)
    factors = [p.factor for p in fixed]
    scale, unit = units.time_scale(max(p.fresh_s for p in fixed))
    upstream = report.upstream_s
    step = [e * report.step_s.mean / scale for e in factors]
    took = [p.epoch_s / report.epoch_examples / scale for p in fixed]
    together = report.measurements.together_s
    low, high = upstream.low / scale, upstream.high / scale
    if math.isfinite(high):
        axes.axhspan(low, high, color=_UPSTREAM, alpha=0.2)
    axes.axhline(
        upstream.mean / scale, color=_UPSTREAM, ls="--", label="upstream alone"
    )
    axes.plot(factors, step, color=_STEP, ls="--", label="e times the step alone")
    axes.plot(factors, took, color=_PREDICTED, label="predicted")
    _points(axes, {1.0: together.mean / scale}, f"{_OVERLAPPED}, measured", hollow=True)
    ends = [[together.low / scale], [together.high / scale]]
    axes.plot([[1.0], [1.0]], ends, color=_MEASURED)
    _points(axes, {e: s / scale for e, s in measured.items()}, "measured")
    axes.set_ylabel(f"time per fresh example, {unit}")
    _finish(axes, report)


def _speedups(axes: Any, report: Report, measured: Mapping[float, float]) -> None:
    """Draw the speed-up for the same number of steps, with the knee at R."""
    fixed = _fixed(report)
    factors = [p.factor for p in fixed]
    ratio = report.ratio.mean
    corners = sorted({*factors, min(max(ratio, 1), factors[-1])})
    ideal = [cost_model.speedup(ratio, e) for e in corners]
    axes.plot(corners, ideal, color=_UPSTREAM, ls="--", label="min(e, R)")
    axes.plot(factors, [p.speedup for p in fixed], color=_PREDICTED, label="predicted")
    auto = report.predictions[-1]
    axes.plot(auto.effective_factor, auto.speedup, "D", color=_PREDICTED, label="auto")
    alone_s = cost_model.fresh_s(report.upstream_s.mean, report.step_s.mean, 1)
    together_s = report.measurements.together_s.mean
    if together_s > 0:
        now = {1.0: alone_s / together_s}
        _points(axes, now, f"{_OVERLAPPED}, measured", hollow=True)
    _points(
        axes, {e: e * alone_s / s for e, s in measured.items() if s > 0}, "measured"
    )
    axes.set_ylabel("speed-up for the same number of steps")
    _finish(axes, report)


def _fixed(report: Report) -> list[Any]:
    return [p for p in report.predictions if not isinstance(p.factor, str)]


def _points(
    axes: Any, points: Mapping[float, float], label: str, *, hollow: bool = False
) -> None:
    if points:
        axes.plot(
            list(points),
            list(points.values()),
            "o",
            color=_MEASURED,
            fillstyle="none" if hollow else "full",
            label=label,
        )


def _finish(axes: Any, report: Report) -> None:
    """Draw the axes from zero, the knee, and a legend."""
    ratio = report.ratio
    right = max(p.effective_factor for p in _fixed(report)) + 0.5
    if ratio.mean < right:
        known = math.isfinite(ratio.high)
        axes.axvspan(ratio.low, min(ratio.high, right) if known else right, alpha=0.1)
        axes.axvline(ratio.mean, color="black", lw=0.8)
        axes.annotate(
            f" R = {units.times(ratio.mean)}",
            (ratio.mean, 0.02),
            xycoords=("data", "axes fraction"),
        )
    axes.set_xlim(0, right)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("echoing factor e")
    axes.grid(alpha=0.3)
    axes.legend(loc="best", fontsize=8, frameon=False)
