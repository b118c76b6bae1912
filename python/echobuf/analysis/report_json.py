"""The report as plain values, for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

from echobuf.spec import describe, make_spec

if TYPE_CHECKING:
    from echobuf.analysis.report import Report

FORMAT = 2
"""Version of the JSON format, incremented when a field changes its meaning."""


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as dicts, lists, strings and finite numbers."""
    from echobuf import __version__

    measurements = report.measurements
    raw = {name: value for name, value in vars(measurements).items() if name != "spec"}
    ratio = report.ratio.mean
    unknown = math.isnan(ratio)
    content = {
        "format": FORMAT,
        "echobuf": __version__,
        "message": report.message,
        "consistent": report.consistent,
        "pays": report.pays,
        "reason": report.reason,
        "needed_seconds": report.needed_seconds,
        "factor": report.factor,
        "t_upstream_s": report.upstream_s,
        "t_downstream_s": report.step_s,
        "R": report.ratio,
        "R_first": report.first_ratio,
        "knee": report.knee,
        "candidates": report.candidates,
        "wait_share": report.wait_share,
        "input_stall": report.input_stall,
        "epoch_examples": report.epoch_examples,
        "predictions": report.predictions,
        "repeats": report.repeats,
        "worths": report.worths,
        "stop_factor": None if unknown else report.repeats.stop_factor(ratio),
        "enough_factor": None if unknown else report.repeats.enough_factor(ratio),
        "memory": report.memory(),
        "payload_bytes": report.payload_bytes(),
        "remedies": report.remedies,
        "across": report.across,
        "ranks": 1 if report.cluster is None else report.cluster.ranks,
        "advice": report.advice,
        "measurements": {"spec": describe(make_spec(measurements.spec)), **raw},
    }
    return {name: _plain(value) for name, value in content.items()}


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
