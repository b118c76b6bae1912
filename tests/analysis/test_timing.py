"""Timings: intervals that hold as often as they say, and the time for phases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echobuf.analysis import timing
from echobuf.analysis.timing import SHARES, Budget, Timings, student_t
from virtual_time import VirtualClock

TIMES = st.lists(st.tuples(st.floats(1e-6, 10), st.integers(1, 100)), min_size=1)


@given(TIMES.filter(lambda times: len(times) < 64))
def test_the_mean_is_that_of_all_examples(times):
    timings = Timings()
    for seconds, examples in times:
        timings.add(seconds, examples)
    estimate = timings.estimate()
    expected = sum(s for s, _ in times) / sum(n for _, n in times)
    assert estimate.mean == pytest.approx(expected)
    assert estimate.low <= estimate.mean <= estimate.high
    assert estimate.count == len(times)


@pytest.mark.parametrize("count", [63, 64, 65, 1000, 4096])
def test_blocks_are_merged_and_nothing_is_lost_but_the_open_one(count):
    timings = Timings()
    for number in range(count):
        timings.add(float(number))
    whole = count
    if count >= 64:  # blocks of 2, 4, ... times
        size = 2 ** (count.bit_length() - 6)
        whole = count // size * size
    assert timings.estimate().mean == pytest.approx((whole - 1) / 2)
    assert timings.estimate().count == count


def test_empty_batches_take_time_and_are_no_examples():
    timings = Timings()
    for _ in range(4):
        timings.add(1.0, 0)
        timings.add(1.0, 2)
    assert timings.estimate().mean == 1.0
    assert timings.estimate().count == 4


def test_times_of_a_group_are_one_block():
    """Four workers that deliver together: what they do in turn is no uncertainty."""
    timings = Timings(group=4)
    for _ in range(40):
        for seconds in (0.4, 0.0, 0.0, 0.0):
            timings.add(seconds)
    estimate = timings.estimate()
    assert estimate.mean == pytest.approx(0.1)
    assert estimate.high == pytest.approx(estimate.low)
    assert timings.is_narrow(1e-6)


def test_without_two_blocks_the_interval_says_that_nothing_is_known():
    timings = Timings(group=4)
    with pytest.raises(ValueError, match="nothing"):
        timings.estimate()
    timings.add(3.0)
    assert not timings.has_interval
    estimate = timings.estimate()
    assert (estimate.low, estimate.mean, estimate.high) == (0.0, 3.0, 6.0)
    assert not timings.is_narrow(1e9)


# (degrees of freedom, 97.5 % quantile), of any table
@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.706), (2, 4.303), (10, 2.228), (11, 2.201), (20, 2.086), (62, 1.999)],
)
def test_student_t(freedom, quantile):
    assert student_t(freedom) == pytest.approx(quantile, abs=2e-3)


@pytest.mark.parametrize("count", [5, 31, 300])
def test_the_interval_holds_the_mean_as_often_as_it_says(count):
    rng = np.random.default_rng(count)
    held = 0
    for _ in range(1000):
        timings = Timings()
        for seconds in rng.normal(10, 1, count):
            timings.add(seconds)
        estimate = timings.estimate()
        held += estimate.low <= 10 <= estimate.high
    assert 925 <= held <= 975  # 950, and 3.5 standard deviations


# ---- phases: what one does not need, later ones have


@pytest.fixture
def clock(monkeypatch):
    virtual = VirtualClock()
    monkeypatch.setattr(timing, "now", virtual)
    return virtual


def narrow():
    timings = Timings()
    for _ in range(40):
        timings.add(1.0)
    return timings


def wide():
    timings = Timings()
    for number in range(40):
        timings.add(10.0 ** (number % 7))
    return timings


def test_the_shares_use_up_the_time_and_no_more(clock):
    budget = Budget(30, 0.05)
    for name in SHARES:
        phase = budget.begin(name)
        clock.pass_by(phase.allowed_s * (1 + 1e-9))
        assert phase.is_over(wide())
    assert budget.elapsed_s == pytest.approx(30)


def test_unused_time_goes_to_later_phases(clock):
    budget = Budget(30, 0.05)
    first, *rest = SHARES
    budget.begin(first)
    shares = sum(SHARES[name] for name in rest)
    assert budget.begin(rest[0]).allowed_s == pytest.approx(
        30 * SHARES[rest[0]] / shares
    )


def test_phases_may_be_left_out(clock):
    budget = Budget(30, 0.05)
    *_, last = SHARES
    assert budget.begin(last).allowed_s == pytest.approx(30)


def test_a_narrow_interval_ends_a_phase_but_not_at_once(clock):
    phase = Budget(60, 0.05).begin(next(iter(SHARES)))
    assert not phase.is_over(narrow())
    clock.pass_by(1.01)
    assert phase.is_over(narrow())
    assert not phase.is_over(wide())


def test_a_phase_goes_on_for_a_while_when_nothing_is_known(clock):
    phase = Budget(10, 0.05).begin(next(iter(SHARES)))
    timings = Timings(group=8)
    timings.add(1.0)
    clock.pass_by(1000)
    assert not phase.is_over(timings)  # one time is none
    timings.add(1.0)
    assert phase.is_over(timings)


def test_each_phase_is_told(clock):
    told = []
    budget = Budget(30, 0.05, told.append)
    for name in SHARES:
        budget.begin(name)
    assert told == list(SHARES)
