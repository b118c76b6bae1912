"""The native schedule of factor "auto" against the reference, step by step."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echobuf import _core
from schedule_reference import Auto


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int, int]:
    """Window, batch size and the largest factor."""
    window = draw(st.integers(1, 200))
    return window, draw(st.integers(1, window)), draw(st.integers(1, 9))


@settings(deadline=None)
@given(sizes())
def test_sizes_are_those_of_the_reference(case):
    native, reference = _core.AutoSchedule(*case), Auto(*case)
    assert native.segments == reference.segments
    assert native.capacity == reference.capacity
    for number in range(5 * reference.segments):
        assert native.start(number) == reference.start(number)


class Pair:
    """The native schedule and the reference, told the same things."""

    def __init__(self, case: tuple[int, int, int]) -> None:
        self.native = _core.AutoSchedule(*case)
        self.reference = Auto(*case)

    def check(self) -> None:
        """Both are in the same state, and it is a lawful one."""
        native, reference = self.native, self.reference
        assert (native.lo, native.hi) == (reference.lo, reference.hi)
        assert (native.limit, native.slack) == (reference.limit, reference.slack)
        assert list(native.uses) == reference.uses
        assert reference.hi - reference.lo <= reference.segments
        assert reference.least <= reference.limit <= reference.segments
        assert all(use < reference.max_factor for use in reference.uses)

    def first_pass(self, filled: int, *, ended: bool) -> bool:
        begun = self.reference.first_pass(filled, ended=ended)
        assert self.native.first_pass(filled, ended) is begun
        self.check()
        return begun

    def end_pass(self, filled: int, free: int, *, blocked: bool, ended: bool) -> str:
        told = {"blocked": blocked, "ended": ended}
        answer = self.reference.end_pass(filled, free, **told)
        assert self.native.end_pass(filled, free, blocked, ended) == answer
        self.check()
        return answer

    def resume(self, filled: int, *, ended: bool) -> str:
        answer = self.reference.resume(filled, ended=ended)
        assert self.native.resume(filled, ended) == answer
        self.check()
        return answer


def step(data: Any, pair: Pair, state: str, filled: int, *, ended: bool) -> str:
    """One decision of the schedule."""
    if state == "first":
        return "pass" if pair.first_pass(filled, ended=ended) else state
    if state == "wait":
        return pair.resume(filled, ended=ended)
    free = data.draw(st.integers(0, pair.reference.capacity))
    blocked = data.draw(st.booleans())
    return pair.end_pass(filled, free, blocked=blocked, ended=ended)


@settings(deadline=None, max_examples=300)
@given(sizes(), st.data())
def test_every_decision_is_that_of_the_reference(case, data):
    pair = Pair(case)
    state, filled = "first", 0
    for _ in range(data.draw(st.integers(0, 40))):
        room = pair.reference.segments + 1 - (filled - pair.reference.lo)
        filled += data.draw(st.integers(0, max(0, room)))
        state = step(data, pair, state, filled, ended=False)
    filled += data.draw(st.integers(0, 2))
    while state != "finished" and filled:
        state = step(data, pair, state, filled, ended=True)


@settings(deadline=None)
@given(sizes())
def test_a_fast_upstream_brings_the_factor_down_to_one(case):
    pair = Pair(case)
    filled = pair.reference.segments
    assert pair.first_pass(filled, ended=False)
    for _ in range(10):
        filled = pair.reference.lo + pair.reference.segments + 1
        assert pair.end_pass(filled, 0, blocked=True, ended=False) == "pass"
    assert pair.reference.limit == pair.reference.least
    assert pair.reference.uses == [0] * pair.reference.least


@pytest.mark.parametrize("limit", [1, 3, 8])
def test_a_stopped_upstream_is_waited_for_once_all_is_spent(limit):
    pair = Pair((64, 8, limit))
    assert pair.first_pass(2, ended=False)
    for _ in range(limit - 1):
        assert pair.end_pass(2, 40, blocked=False, ended=False) == "pass"
    assert pair.end_pass(2, 40, blocked=False, ended=False) == "wait"
    assert pair.resume(2, ended=False) == "wait"
    assert pair.resume(3, ended=False) == "pass"
    assert pair.end_pass(4, 40, blocked=False, ended=True) == "pass"
    assert (pair.reference.lo, pair.reference.hi) == (3, 4)
    assert pair.end_pass(4, 40, blocked=False, ended=True) == "finished"


def test_nothing_at_all_begins_no_pass():
    native = _core.AutoSchedule(64, 8, 8)
    assert not native.first_pass(0, False)
    assert not native.first_pass(0, True)
