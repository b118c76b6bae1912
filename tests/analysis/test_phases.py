"""The time for phases: what one does not need, later ones have."""

import pytest

from echobuf.analysis import timing
from echobuf.analysis.timing import SHARES, Budget, Timings
from virtual_time import VirtualClock


@pytest.fixture(autouse=True)
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
