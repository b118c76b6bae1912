"""The native fixed schedule against the reference."""

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echobuf import _core
from schedule_reference import epoch_phase, fixed_capacity, fixed_passes

RATIOS = st.one_of(
    st.integers(1, 12).map(Fraction),
    st.fractions(1, 9, max_denominator=12),
    st.fractions(1, 6, max_denominator=1_000_000),
)


Case = tuple[int, Fraction, int, int]
"""Window, factor, examples, phase."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    factor = draw(RATIOS)
    window = draw(st.integers(math.ceil(factor), 200))
    n = draw(st.one_of(st.integers(0, 500), st.just(3 * window)))
    return window, factor, n, draw(st.integers(0, factor.denominator - 1))


def spans(case: Case) -> list[tuple[int, int]]:
    return [(part[0], len(part)) for part in fixed_passes(*case)]


def native_spans(case: Case) -> list[tuple[int, int]]:
    window, factor, n, phase = case
    native = _core.fixed_passes(window, factor.numerator, factor.denominator, n, phase)
    return [tuple(span) for span in native]


@settings(deadline=None, max_examples=400)
@given(cases())
def test_passes_are_those_of_the_reference(case):
    assert native_spans(case) == spans(case)


def test_passes_exhaustively_for_small_windows():
    for den in range(1, 6):
        for num in range(den, 5 * den + 1):
            factor = Fraction(num, den)
            for window in range(math.ceil(factor), 12):
                counts = (0, 1, window - 1, window, 3 * window + 1)
                for n, phase in itertools.product(counts, range(factor.denominator)):
                    case = window, factor, n, phase
                    assert native_spans(case) == spans(case), case


@settings(deadline=None, max_examples=200)
@given(cases())
def test_total_draws_are_those_simulated(case):
    window, factor, n, phase = case
    simulated = sum(count for _, count in spans(case))
    num, den = factor.as_integer_ratio()
    assert _core.fixed_total_draws(window, num, den, n, phase) == simulated
    segment = window // math.ceil(factor)
    assert abs(simulated - n * factor) <= (segment if den > 1 else 0)


SEEDS = st.integers(0, 2**64 - 1)
EPOCHS = st.one_of(st.integers(0, 99), st.integers(0, 2**63 - 1))


@settings(max_examples=300)
@given(RATIOS, SEEDS, EPOCHS)
def test_phases_are_those_of_the_reference(factor, seed, epoch):
    num, den = factor.as_integer_ratio()
    phase = _core.epoch_phase(num, den, seed, epoch)
    assert phase == epoch_phase(factor, seed, epoch)
    assert 0 <= phase < den


@given(st.fractions(1, 4, max_denominator=400), SEEDS, EPOCHS, st.integers(0, 9999))
def test_over_ten_epochs_each_segment_lives_as_long_as_the_factor_says(
    factor, seed, first, segment
):
    num, den = factor.as_integer_ratio()
    lives = 0
    for epoch in range(first, first + 10):
        phase = _core.epoch_phase(num, den, seed, epoch)
        lives += (segment * num + num + phase) // den - (segment * num + phase) // den
    assert abs(Fraction(lives, 10) - factor) <= Fraction(19, 100)


def test_the_draws_of_all_phases_are_those_of_the_factor():
    """So none is favoured, in epochs of any length."""
    for num, den in ((3, 2), (7, 3), (13, 10), (113, 100)):
        for n in range(60):
            draws = [_core.fixed_total_draws(9, num, den, n, u) for u in range(den)]
            assert sum(draws) == n * num


@given(cases())
def test_capacity_is_that_of_the_reference(case):
    window, factor, _, _ = case
    num, den = factor.as_integer_ratio()
    assert _core.fixed_capacity(window, num, den) == fixed_capacity(window, factor)


@pytest.mark.parametrize("n", [2**32 + 1, 10**12, 2**45 - 1])
@pytest.mark.parametrize("window", [7, 4096, 10**7])
def test_totals_do_not_overflow(window, n):
    for factor in (Fraction(1), Fraction(5), Fraction(1_000_001, 1_000_000)):
        num, den = factor.as_integer_ratio()
        total = _core.fixed_total_draws(window, num, den, n)
        assert abs(total - n * factor) <= (window if den > 1 else 0)
        last = _core.fixed_total_draws(window, num, den, n, den - 1)
        assert abs(last - n * factor) <= (window if den > 1 else 0)
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
