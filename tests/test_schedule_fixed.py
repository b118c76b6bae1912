"""The native fixed schedule against the reference."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echobuf import _core
from schedule_reference import fixed_capacity, fixed_passes

RATIOS = st.one_of(
    st.integers(1, 12).map(Fraction),
    st.fractions(1, 9, max_denominator=12),
    st.fractions(1, 6, max_denominator=1_000_000),
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, Fraction, int]:
    factor = draw(RATIOS)
    window = draw(st.integers(math.ceil(factor), 200))
    n = draw(st.one_of(st.integers(0, 500), st.just(3 * window)))
    return window, factor, n


def spans(window: int, factor: Fraction, n: int) -> list[tuple[int, int]]:
    return [(part[0], len(part)) for part in fixed_passes(window, factor, n)]


def native_spans(window: int, factor: Fraction, n: int) -> list[tuple[int, int]]:
    native = _core.fixed_passes(window, factor.numerator, factor.denominator, n)
    return [tuple(span) for span in native]


@settings(deadline=None, max_examples=400)
@given(cases())
def test_passes_are_those_of_the_reference(case):
    assert native_spans(*case) == spans(*case)


def test_passes_exhaustively_for_small_windows():
    for den in range(1, 6):
        for num in range(den, 5 * den + 1):
            factor = Fraction(num, den)
            for window in range(math.ceil(factor), 12):
                for n in (0, 1, window - 1, window, 3 * window + 1):
                    case = window, factor, n
                    assert native_spans(*case) == spans(*case), case


@settings(deadline=None, max_examples=200)
@given(cases())
def test_total_draws_are_those_simulated(case):
    window, factor, n = case
    simulated = sum(count for _, count in spans(*case))
    num, den = factor.as_integer_ratio()
    assert _core.fixed_total_draws(window, num, den, n) == simulated
    segment = math.ceil(Fraction(window, math.ceil(factor)))
    assert abs(simulated - n * factor) <= (segment if den > 1 else 0)


@given(cases())
def test_capacity_is_that_of_the_reference(case):
    window, factor, _ = case
    num, den = factor.as_integer_ratio()
    assert _core.fixed_capacity(window, num, den) == fixed_capacity(window, factor)


@pytest.mark.parametrize("n", [2**32 + 1, 10**12, 2**45 - 1])
@pytest.mark.parametrize("window", [7, 4096, 10**7])
def test_totals_do_not_overflow(window, n):
    for factor in (Fraction(1), Fraction(5), Fraction(1_000_001, 1_000_000)):
        num, den = factor.as_integer_ratio()
        total = _core.fixed_total_draws(window, num, den, n)
        assert abs(total - n * factor) <= (window if den > 1 else 0)
    factor = Fraction(2_999_999, 1_000_000)
    segment = window // 3
    full, rest = divmod(n, segment)
    lives = [math.floor(turn * factor) for turn in (full, full + 1)]
    by_hand = segment * lives[0] + rest * (lives[1] - lives[0])
    assert _core.fixed_total_draws(window, 2_999_999, 1_000_000, n) == by_hand


@pytest.mark.parametrize(("num", "den"), [(1, 1), (3, 1), (5, 2)])
def test_a_pass_begins_and_ends_with_segments(num, den):
    starts = {_core.fixed_segment_start(16, num, den, i) for i in range(99)}
    for first, count in _core.fixed_passes(16, num, den, 160)[: 9 * num // den]:
        assert {first, first + count} <= starts
