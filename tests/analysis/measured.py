"""Measurements made by hand, for tests of what follows from them."""

from __future__ import annotations

from typing import Any

from echobuf import Field
from echobuf.analysis.measurements import Estimate, Measurements
from echobuf.analysis.report import Report

SPEC = {"image": Field((8, 8, 3), "u1"), "label": Field((), "i8")}
STEP_S = 1e-3


def estimate(mean: float, spread: float = 0.01, count: int = 30) -> Estimate:
    """With an interval of so much, as a share, on either side."""
    return Estimate(mean, mean * (1 - spread), mean * (1 + spread), count)


def measurements(ratio: float = 4.0, **other: Any) -> Measurements:
    """Of an upstream that is `ratio` times as slow as a step of 1 ms, unless told."""
    upstream_s = ratio * STEP_S
    values: dict[str, Any] = {
        "spec": SPEC,
        "batch_size": 32,
        "step_s": estimate(STEP_S),
        "upstream_first_s": estimate(upstream_s),
        "upstream_second_s": estimate(upstream_s),
        "together_s": estimate(max(upstream_s, STEP_S)),
        "wait_s": estimate(32 * max(0.0, upstream_s - STEP_S)),
        "length": 20_000,
        "window": 1024,
    }
    return Measurements(**(values | other))


def remedy(report: Report, name: str) -> Any:
    """Return the remedy whose name begins so."""
    return next(each for each in report.remedies if each.name.startswith(name))
