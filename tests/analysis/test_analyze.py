"""`analyze` as it is called, on the machine's clock."""

import contextvars
import json
import time

import numpy as np
import pytest

import echobuf
from echobuf.analysis import Report

pytestmark = pytest.mark.usefixtures("no_leaked_threads")


class Slow:
    def __init__(self, seconds):
        self._seconds = seconds

    def __iter__(self):
        for number in range(1000):
            time.sleep(self._seconds)
            yield np.full((8, 2), number)


def test_a_slow_upstream_is_an_input_stall_that_echoing_helps():
    report = measured_well(Slow(0.02), lambda _: time.sleep(0.001))
    assert isinstance(report, Report)
    assert report.ratio.mean > 2
    assert report.input_stall
    assert report.pays
    # They overlap: not slower than one after the other.
    of = report.measurements
    assert of.wait_s.mean < of.together_s.mean * of.batch_size
    assert "t_upstream" in str(report)
    assert json.loads(report.to_json())["input_stall"] is True


def measured_well(upstream, step):
    """Again where the machine did other work: it says so, or has seen few steps."""
    for _ in range(20):
        report = echobuf.analyze(upstream, step, seconds=1)
        if report.consistent and report.measurements.together_s.count >= 8:
            return report
    return pytest.fail(str(report))


def test_options_may_be_numbers_of_numpy():
    numbers = {"window": np.int64(80), "max_factor": np.int32(3)}
    batches = [np.zeros((8, 2))] * 100
    report = echobuf.analyze(
        batches, lambda _: time.sleep(1e-3), seconds=0.2, **numbers
    )
    measured = json.loads(report.to_json())["measurements"]
    assert (measured["window"], measured["max_factor"]) == (80, 3)


def test_a_quick_upstream_needs_no_echoing():
    batches = [np.zeros((8, 2))] * 100
    report = echobuf.analyze(batches, lambda _: time.sleep(0.005), seconds=0.5)
    assert report.ratio.mean < 0.5
    assert not report.pays


@pytest.mark.parametrize("one_shot", [False, True])
def test_upstream_has_the_context_of_the_caller(one_shot):
    variable = contextvars.ContextVar("variable", default=0)
    seen = set()

    def items():
        for _ in range(5000):
            seen.add(variable.get())
            time.sleep(1e-3)
            yield np.zeros((8, 2))

    class Upstream:
        def __iter__(self):
            return items()

    token = variable.set(5)
    try:
        upstream = items() if one_shot else Upstream()
        echobuf.analyze(upstream, lambda _: time.sleep(1e-3), seconds=0.5)
    finally:
        variable.reset(token)
    assert seen == {5}
