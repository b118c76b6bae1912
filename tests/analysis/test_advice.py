"""Advice: the best of the table, or that nothing can be told yet."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from echobuf.analysis.advice import TIE, WORTH, needed_s
from echobuf.analysis.measurements import Estimate
from echobuf.analysis.report import Report
from echobuf.analysis.timing import Timings
from measured import STEP_S, estimate, measurements
from virtual_time import Batches, VirtualClock, measure, step_of

# ---- the best of the table


def beyond(report, prediction):
    """Say if a row is none to choose: further echoes than R, or than are allowed."""
    if prediction.factor in ("auto", 1):
        return prediction.factor == 1
    most = min(report.measurements.max_factor, report.measurements.window)
    return prediction.factor > min(report.ratio.mean * (1 + 1e-6), most)


@settings(max_examples=30)
@given(
    st.floats(0.5, 40),
    st.sampled_from([0.01, 0.1]),
    st.sampled_from([32, 200]),
    st.sampled_from([200, 1024]),
    st.sampled_from([300, 2_048, 20_000, None]),
    st.integers(1, 20),
)
def test_the_advice_is_the_best_of_its_table(
    ratio, spread, batch, window, length, most
):
    report = Report(
        measurements(
            ratio,
            upstream_second_s=estimate(ratio * STEP_S, spread),
            batch_size=batch,
            window=window,
            length=length,
            max_factor=most,
        )
    )
    rows = [row for row in report.predictions if not beyond(report, row)]
    assert {row.factor for row in rows} == set(report.candidates)
    best = max(row.speedup for row in rows)
    if report.pays:
        advised = report.predict(report.factor)
        assert advised in rows
        assert advised.speedup >= TIE * best
        assert advised.speedup >= WORTH
        numbers = [r for r in rows if r.factor != "auto" and r.speedup >= TIE * best]
        if report.factor != "auto":  # of those as good, the one that echoes least
            assert report.factor == min(row.factor for row in numbers)
    else:
        assert report.factor == 1
        if report.pays is False and report.ratio.low > 1:
            assert best * TIE < WORTH


def test_auto_is_advised_where_an_epoch_is_short():
    """It begins before the window is full."""
    report = Report(measurements(9.0, length=2_000))
    auto, eight = report.predict("auto").speedup, report.predict(8).speedup
    assert auto > 1.1 * eight
    assert report.factor == "auto"


def test_rows_that_are_none_to_choose_are_marked():
    text = str(Report(measurements(4.0, max_factor=3)))
    assert text.count("> R") == 12
    assert text.count("> max") == 0  # that is the row of R
    assert str(Report(measurements(9.0, max_factor=6))).count("> max") == 2


# ---- nothing can be told yet


@pytest.mark.parametrize("spread", [0.95, 2.0])
def test_an_undecided_result_is_no_refusal(spread):
    wide = Estimate(9 * STEP_S, max(0.0, 9 * STEP_S * (1 - spread)), 1.0, 3, 2)
    report = Report(measurements(9.0, upstream_second_s=wide, seconds=3.0))
    assert report.pays is None
    assert report.factor == 1
    assert report.message.startswith("Cannot tell yet whether echoing pays: R = 9.00")
    assert "does not pay" not in str(report)
    assert "<- advised" not in str(report)
    assert 3 < report.needed_seconds < 1e6
    assert "measure for about" in report.message
    content = json.loads(report.to_json())
    assert content["pays"] is None
    assert content["needed_seconds"] == report.needed_seconds
    assert content["reason"] == report.reason


def test_an_inconsistent_result_is_undecided_too():
    report = Report(measurements(4.0, together_s=estimate(2e-3)))
    assert report.pays is None
    assert report.factor == 1
    assert report.needed_seconds is None
    assert json.loads(report.to_json())["pays"] is None


@pytest.mark.parametrize("ratio", [0.5, 1.0, 4.0])
def test_a_known_ratio_needs_no_more_time(ratio):
    report = Report(measurements(ratio))
    assert report.pays is (ratio > 1)
    assert report.needed_seconds is None


def above_one(ratio):
    return ratio.low > 1


@given(st.floats(1.2, 20), st.floats(0.05, 3), st.integers(2, 40), st.floats(1, 60))
def test_the_time_that_is_named_would_be_enough(ratio, spread, blocks, seconds):
    upstream = Estimate(
        ratio, max(0.0, ratio * (1 - spread)), ratio * (1 + spread), 40, blocks
    )
    step = Estimate(1.0, 1.0, 1.0, 40, 40)
    needed = needed_s(seconds, upstream, step, above_one)
    assert needed is not None
    assert needed > seconds
    times = needed / seconds  # at the latest with the plain root of the time
    if spread < 1:
        root = (spread / (1 - 1 / ratio)) ** 2
        assert times <= max(1.3, 1.3 * root)


def test_no_time_is_named_where_none_would_be_enough():
    one = Estimate(1.0, 0.5, 1.5, 40, 40)
    assert needed_s(3.0, one, one, above_one) is None
    assert needed_s(math.inf, replace(one, mean=4.0), one, above_one) is None


@pytest.mark.parametrize("seed", range(4))
def test_with_a_true_r_of_nine_it_pays_or_says_how_long_it_takes(seed):
    rng = np.random.default_rng(seed)
    took = rng.gamma(4, 0.45 / 4, 100_000)
    seconds, decided = [3.0, 5.0, 30.0], 0
    for given_s in seconds:
        clock = VirtualClock()
        upstream = Batches(clock, 100_000, lambda _, number: took[number])
        found = measure(upstream, step_of(clock, 0.05), seconds=given_s, clock=clock)
        report = Report(found)
        if not report.consistent:
            continue
        assert report.pays is not False
        decided += bool(report.pays)
        if report.pays is None:
            assert report.needed_seconds > found.seconds
            seconds.append(report.needed_seconds)
            assert len(seconds) < 8
    assert decided


# ---- intervals that cover


@pytest.mark.parametrize("follows", [0.5, 0.8])
@pytest.mark.parametrize("count", [31, 300])
def test_the_interval_covers_where_times_follow_each_other(follows, count):
    """A machine that is slow for a while: a chain with that correlation."""
    rng = np.random.default_rng(count)
    held = 0
    for _ in range(400):
        timings, at = Timings(), rng.normal()
        for change in rng.normal(size=count) * math.sqrt(1 - follows**2):
            timings.add(10 + at)
            at = follows * at + change
        found = timings.estimate()
        held += found.low <= 10 <= found.high
    assert held >= 0.85 * 400  # 0.47 to 0.93 of them with independent blocks


def test_a_second_pass_that_is_slower_is_within_the_interval():
    slower = measurements(
        5.0, upstream_first_s=estimate(4e-3), upstream_second_s=estimate(5e-3)
    )
    found = slower.upstream_s
    assert found.mean == pytest.approx(5e-3)
    assert found.low <= 4e-3
    quicker = measurements(5.0, upstream_first_s=estimate(9e-3))
    assert quicker.upstream_s == quicker.upstream_second_s


def test_a_time_that_is_not_steady_is_noted():
    def notes(seconds):
        clock = VirtualClock()
        upstream = Batches(clock, 400, seconds)
        return measure(upstream, step_of(clock, 0.01), clock=clock, seconds=60).notes

    uneven = notes(lambda turn, number: 0.02 + 0.0004 * number)
    assert any("not steady" in note for note in uneven)
    assert not any("not steady" in note for note in notes(0.03))


# ---- odd usages, each of which has a clear line


def items(count=20):
    return [np.zeros((4, 3))] * count


def step(batch):
    time.sleep(1e-4)


HUGE = 10**400


@pytest.mark.parametrize("name", ["seconds", "timeout", "interval"])
@pytest.mark.parametrize(
    "value",
    [1e300, HUGE, -HUGE, math.inf, "soon", True],
    ids=["1e300", "huge", "-huge", "infinite", "a word", "a bool"],
)
def test_times_beyond_reason_are_refused(name, value):
    with pytest.raises(echobuf.OptionError, match=f"`{name}`.*must be") as caught:
        measure(items(), step, **{"seconds": 0.1, name: value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("length", [10**15, 10**30])
def test_a_length_beyond_reason_has_a_report_all_the_same(length):
    found = measure(items(), step, seconds=0.1, length=length)
    report = Report(found)
    assert max(map(len, str(report).splitlines())) <= 80
    json.loads(report.to_json(), parse_constant=pytest.fail)
