"""The report as text, at most 80 columns wide."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.box import Box
from rich.console import Console, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from echobuf.analysis import units
from echobuf.analysis.cost_model import Cluster, costs_of
from echobuf.analysis.prediction import Prediction

if TYPE_CHECKING:
    from echobuf.analysis.report import Report

WIDTH = 80

_VISIBLE = 1.005  # smallest speed-up to show
_WORTHS = (1, 2, 3, 4, 6, 8, 12, 16)  # factors to show the worth of

# A line below the head, of characters that every terminal has.
_BOX = Box("\n".join(["    ", "    ", " -- ", *["    "] * 5]) + "\n", ascii=True)


def text(report: Report) -> str:
    """Format the whole report."""
    out = io.StringIO()
    console = Console(
        file=out, width=WIDTH, color_system=None, force_terminal=False, emoji=False
    )
    for part in _parts(report):
        console.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _parts(report: Report) -> list[RenderableType]:
    return [
        Text(report.message),
        _measured(report),
        _waiting(report),
        _predicted(report),
        _below_predictions(report),
        *_worths(report),
        _remedies(report),
        *_across(report),
        "",
        _lines(report.advice),
    ]


def _measured(report: Report) -> Table:
    measured = report.measurements
    table = _table("measured", "per example", "95 % interval", "runs")
    for name, value in {
        "step (t_downstream)": measured.step_s,
        "upstream, first pass": measured.upstream_first_s,
        "upstream, second pass": measured.upstream_second_s,
        "both together": measured.together_s,
    }.items():
        if value is not None:
            interval = units.interval(value.low, value.high)
            runs = units.count(value.count)
            table.add_row(name, units.seconds(value.mean), interval, runs)
    ratios = {"R = t_upstream / t_downstream": report.ratio}
    if measured.storage_s:
        ratios["R of the first pass"] = report.first_ratio
    for name, ratio in ratios.items():
        interval = f"{units.times(ratio.low)} .. {units.times(ratio.high)}"
        table.add_row(name, units.times(ratio.mean), interval)
    if (parts := measured.loader) is not None:
        processes = f"in each of {parts.workers:,}" if parts.workers else "no"
        table.add_row(f"  fetching, {processes} workers", units.seconds(parts.fetch_s))
        table.add_row("  collating", units.seconds(parts.collate_s))
        if parts.pin_s is not None:
            table.add_row("  pinning", units.seconds(parts.pin_s))
    return table


def _waiting(report: Report) -> RenderableType:
    stall = "an input stall" if report.input_stall else "no input stall"
    waited = units.seconds(report.measurements.wait_s.mean)
    return _indented(
        f"The step waited {waited} for a batch, "
        f"{units.percent(report.wait_share)} of the time: {stall}."
    )


def _predicted(report: Report) -> Table:
    """Return the predictions; each column of times is in the unit of its smallest."""
    heads, columns = [], []
    for title, name in {
        "fresh ex.": "fresh_s",
        "epoch": "epoch_s",
        "same steps": "same_steps_s",
    }.items():
        values = [getattr(each, name) for each in report.predictions]
        scale, unit = units.time_scale(min(values))
        heads.append(f"{title}\n{unit}")
        columns.append([units.number(value / scale) for value in values])
    table = _table("factor", *heads, "speed-up", "waits", "")
    for prediction, *times in zip(report.predictions, *columns, strict=True):
        table.add_row(
            units.factor(prediction.factor),
            *times,
            f"{units.times(prediction.speedup)}x",
            units.percent(prediction.wait_share),
            _mark(report, prediction),
        )
    return table


def _mark(report: Report, prediction: Prediction) -> str:
    if report.pays and prediction.factor == report.factor:
        return "<- advised"
    if prediction.factor == report.knee:
        return "<- R"
    if isinstance(prediction.factor, str) or prediction.factor == 1:
        return ""
    if prediction.factor > report.ratio.mean > 1:
        return "> R"
    return "> max" if prediction.factor > report.measurements.max_factor else ""


def _below_predictions(report: Report) -> RenderableType:
    measured = report.measurements
    length = f"{units.count(report.epoch_examples)} fresh examples"
    if measured.length is None:
        length += " (assumed: upstream does not say)"
    auto = units.times(report.predictions[-1].effective_factor)
    memory = report.memory()
    takes = f"The buffer takes {units.size(memory.bytes_host)} of host memory"
    if memory.bytes_device:
        takes += f" and {units.size(memory.bytes_device)} on {measured.device}"
    return _indented(
        f"epoch: {length}, window {units.count(measured.window)}, batch "
        f"{units.count(measured.batch_size)}. same steps: time for as many steps as an "
        "epoch has without echoing, and the speed-up is that of this time. "
        f"auto settles at {auto} here. {takes}."
    )


def _worths(report: Report) -> list[RenderableType]:
    if not report.pays:
        return []
    table = _table("factor", "worth", "last echo", "worth/s", "gain", "")
    for prediction, each in zip(report.predictions, report.worths, strict=True):
        if each.factor not in _WORTHS and each.factor != report.factor:
            continue
        mark = _mark(report, prediction)
        table.add_row(
            units.factor(each.factor),
            units.times(each.worth),
            "" if math.isnan(each.last_echo) else units.times(each.last_echo),
            units.number(each.worth_per_s),
            f"{units.times(each.gain)}x",
            mark if mark.startswith("<-") else "",
        )
    epochs = report.repeats.epochs
    times = "" if epochs == 1 else f", the mean of {epochs:g} epochs"
    below = (
        f"worth: an example with its echoes, in fresh examples{times}, by a formula "
        "for repeats. gain: that of worth/s, over training without echoing."
    )
    return [table, _indented(below)]


def _remedies(report: Report) -> RenderableType:
    helpful = [r for r in report.remedies if r.speedup >= _VISIBLE]
    if not helpful:
        line = "A faster upstream would not help: the step is the slower side."
        return Padding(Text(line), (1, 0, 0, 1))
    table = _table("what else would help", "t_upstream", "speed-up", "")
    for remedy in helpful:
        table.add_row(
            remedy.name,
            units.seconds(remedy.upstream_s),
            f"{units.times(remedy.speedup)}x",
            remedy.note,
        )
    return table


def _across(report: Report) -> list[RenderableType]:
    cluster = report.cluster
    if cluster is None:
        return []
    plural = "s" if cluster.ranks > 1 else ""
    title = f"epoch on {units.count(cluster.ranks)} rank{plural}"
    table = _table(title, "cached", "moved", "loading", "epoch", "at least", "speed-up")
    for way in report.across:
        table.add_row(
            way.name,
            units.percent(way.share),
            units.percent(way.moved),
            units.seconds(way.loading_s),
            units.seconds(way.epoch_s),
            units.seconds(way.least_s),
            f"{units.times(way.speedup)}x",
        )
    return [table, _indented(_below_across(report, cluster))]


def _below_across(report: Report, cluster: Cluster) -> str:
    costs = costs_of(report.measurements, cluster)
    if not costs.storage_s:
        return (
            "The first pass took no longer than the second, so nothing is known of "
            "storage: give the examples a second that it has for all ranks together "
            "(storage_rate, --storage-rate)."
        )
    given = "as one process had" if cluster.storage_rate is None else "as given"
    storage = f"{units.number(1 / costs.storage_s)} examples/s from storage, {given}"
    peers = "peers cost nothing (peer_rate, --peer-rate)"
    if costs.peer_s:
        peers = f"{units.number(1 / costs.peer_s)} from peers"
    return (
        f"All ranks together: {storage}; {peers}. moved: examples that come from a "
        "peer. at least: if ranks are ahead of each other."
    )


def _lines(lines: Iterable[str]) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column()
    grid.add_column(overflow="fold")
    for line in lines:
        grid.add_row(" *", Text(line))
    return grid


def _indented(line: str) -> RenderableType:
    return Padding(Text(line), (0, 0, 0, 1))


def _table(first: str, *others: str) -> Table:
    """Make a table, whose named columns after the first hold numbers."""
    table = Table(box=_BOX)
    table.add_column(first, overflow="fold")
    for name in others:
        justify: JustifyMethod = "right" if name else "left"
        table.add_column(name, justify=justify, overflow="fold")
    return table
