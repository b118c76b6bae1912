"""The native schedule of factor "auto" against the reference, step by step."""

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

    def advance(self, committed: int, *, held_back: bool = False, ended: bool) -> str:
        told = {"held_back": held_back, "ended": ended}
        answer = self.reference.advance(committed, **told)
        assert self.native.advance(committed, **told) == answer
        self.check()
        return answer

    def check(self) -> None:
        """Both are in the same state, and it is a lawful one."""
        native, reference = self.native, self.reference
        assert (native.lo, native.hi) == (reference.lo, reference.hi)
        assert native.limit == reference.limit
        assert list(native.uses) == reference.uses
        assert reference.hi - reference.lo <= reference.segments
        assert reference.least <= reference.limit <= reference.segments
        assert all(use < reference.max_factor for use in reference.uses)


@settings(deadline=None, max_examples=300)
@given(
    sizes(),
    st.lists(st.tuples(st.integers(0, 10**6), st.booleans())),
)
def test_every_decision_is_that_of_the_reference(case, turns):
    pair = Pair(case)
    reference = pair.reference
    committed = 0
    for many, held_back in turns:
        room = reference.capacity - (committed - reference.start(reference.lo))
        committed += many % (max(room, 0) + 1)
        pair.advance(committed, held_back=held_back, ended=False)
    passes = 0
    while pair.advance(committed, ended=True) == "pass":
        passes += 1
    assert passes <= 3


@settings(deadline=None)
@given(sizes())
def test_a_fast_upstream_brings_the_factor_down_to_one(case):
    pair = Pair(case)
    reference = pair.reference
    for _ in range(10):
        committed = reference.start(reference.lo + reference.segments + 1)
        assert pair.advance(committed, held_back=True, ended=False) == "pass"
    assert reference.limit == reference.least
    assert reference.uses == [0] * reference.least


@pytest.mark.parametrize("most", [1, 3, 8])
def test_a_stopped_upstream_is_waited_for_once_all_is_spent(most):
    pair = Pair((64, 8, most))
    assert pair.advance(15, ended=False) == "wait"
    for _ in range(most):
        assert pair.advance(16, ended=False) == "pass"
    assert pair.advance(16, ended=False) == "wait"
    assert pair.advance(23, ended=False) == "wait"
    assert pair.advance(24, ended=False) == "pass"
    assert pair.advance(27, ended=True) == "pass"
    assert (pair.reference.lo, pair.reference.hi) == (3, 4)
    assert pair.advance(27, ended=True) == "finished"


def test_nothing_at_all_is_nothing_to_sweep():
    pair = Pair((64, 8, 8))
    assert pair.advance(0, ended=False) == "wait"
    assert pair.advance(0, ended=True) == "finished"
