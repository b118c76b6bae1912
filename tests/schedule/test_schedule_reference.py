"""The reference on its own: use is exact, and the ring is never too small."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule_reference import Auto, Ring, fixed_capacity, fixed_passes, segments

INTEGER = [
    (window, Fraction(factor), batch)
    for window in range(1, 41)
    for factor in range(1, min(window, 9) + 1)
    for batch in sorted(
        {1, 2, window // 4, window // 3, window // 2, window - 1, window}
    )
    if 1 <= batch <= window
]
RATIOS = [
    (11, 10),
    (3, 2),
    (19, 10),
    (7, 3),
    (5, 2),
    (33, 10),
    (15, 4),
    (26, 5),
    (69, 10),
]


def largest_batch(window: int, factor: Fraction) -> int:
    """The largest batch that the contract allows."""
    if factor.denominator == 1:
        return window
    return math.floor(factor) * (window // math.ceil(factor))


FRACTIONAL = [
    (window, factor, batch)
    for window in range(2, 62, 2)
    for factor in (Fraction(*pair) for pair in RATIOS)
    if window >= factor
    for most in [largest_batch(window, factor)]
    for batch in sorted({1, 2, 3, most // 3, most // 2, most - 1, most})
    if 1 <= batch <= most
]


def upstream(window: int, factor: Fraction) -> int:
    """Enough examples for every phase of the ratio, ending inside a segment."""
    longest = factor.denominator + 3 * math.ceil(factor) + 1
    return longest * math.ceil(Fraction(window, math.ceil(factor))) + window // 3


@pytest.mark.parametrize(
    ("configurations", "at_least"), [(INTEGER, 1500), (FRACTIONAL, 900)]
)
def test_the_ring_always_holds_the_next_batch(configurations, at_least):
    assert len(set(configurations)) >= at_least
    for number, (window, factor, batch) in enumerate(configurations):
        n = upstream(window, factor)
        capacity = fixed_capacity(window, factor)
        phase = number % factor.denominator
        passes = fixed_passes(window, factor, n, phase)
        tried = window, factor, batch, phase
        assert not Ring(passes, batch, capacity).stalls(n), tried


def test_the_ring_holds_the_next_batch_in_every_phase():
    """Small windows: larger ones are the same, in larger segments."""
    for window, pair in itertools.product(range(2, 12), RATIOS):
        factor = Fraction(*pair)
        if window < factor:
            continue
        capacity, n = fixed_capacity(window, factor), upstream(window, factor)
        most = largest_batch(window, factor)
        for phase in range(factor.denominator):
            passes = fixed_passes(window, factor, n, phase)
            for batch in {1, most // 2 + 1, most}:
                tried = window, factor, batch, phase
                assert not Ring(passes, batch, capacity).stalls(n), tried


@pytest.mark.parametrize("configurations", [INTEGER, FRACTIONAL])
def test_a_ring_of_the_window_alone_would_stall(configurations):
    stalled = 0
    for window, factor, batch in configurations:
        n = upstream(window, factor)
        stalled += Ring(fixed_passes(window, factor, n), batch, window).stalls(n)
    assert stalled > len(configurations) // 10


def test_a_larger_batch_of_a_fractional_factor_can_stall():
    factor, window = Fraction(3, 2), 26
    passes = fixed_passes(window, factor, 200)
    capacity = fixed_capacity(window, factor)
    assert not Ring(passes, 13, capacity).stalls(200)
    assert Ring(passes, 15, capacity).stalls(200)


@settings(deadline=None)
@given(st.data())
def test_every_example_is_used_as_the_factor_says(data):
    factor = data.draw(st.fractions(1, 9, max_denominator=50))
    window = data.draw(st.integers(math.ceil(factor), 80))
    n = data.draw(st.integers(0, 400))
    phase = data.draw(st.integers(0, factor.denominator - 1))
    passes = fixed_passes(window, factor, n, phase)
    uses = Counter(example for covered in passes for example in covered)
    assert sorted(uses) == list(range(n))
    assert set(uses.values()) <= {math.floor(factor), math.ceil(factor)}
    segment = window // math.ceil(factor)
    assert abs(uses.total() - n * factor) <= (segment if factor.denominator > 1 else 0)
    for covered in passes:
        assert covered == list(range(covered[0], covered[-1] + 1))
        assert len(covered) <= window


@pytest.mark.parametrize("window", [5, 12, 37, 64])
@pytest.mark.parametrize("factor", [1, 3, 5])
def test_segments_of_an_integer_factor_fill_the_window(window, factor):
    sizes = [len(part) for part in segments(window, Fraction(factor), 5 * window)]
    for first in range(len(sizes) - factor):
        assert sum(sizes[first : first + factor]) == window
        assert sizes[first] <= math.ceil(Fraction(window, factor))


@settings(deadline=None)
@given(st.integers(1, 300), st.data())
def test_auto_segments_fit_the_ring(window, data):
    auto = Auto(window, data.draw(st.integers(1, window)), 8)
    starts = [auto.start(number) for number in range(4 * auto.segments)]
    assert starts[0] == 0
    assert starts[auto.first_segments] == auto.first
    assert auto.first <= window
    for first in range(2 * auto.segments):
        assert 1 <= starts[first + 1] - starts[first] <= auto.segment
        assert starts[first + auto.segments] - starts[first] <= window


def effective_factor(auto: Auto, upstream_ratio: int, n: int) -> float:
    """Served / fresh with an upstream that makes one example every few draws."""
    put = drawn = 0
    made = 0.0
    while put < n:
        free = auto.capacity - (put - min(put, auto.start(auto.lo)))
        swept = auto.start(auto.hi) - auto.start(auto.lo) if auto.uses else 1
        made += swept / upstream_ratio
        new = min(int(made), free)
        held_back = made - new >= 1
        made = min(made - new, 1.0)
        put += new
        drawn += swept if auto.uses else 0
        auto.advance(put, held_back=held_back, ended=False)
    return drawn / auto.start(auto.hi)


@pytest.mark.parametrize(("window", "batch"), [(64, 64), (512, 32)])
@pytest.mark.parametrize("upstream_ratio", [1, 2, 3, 8, 20])
def test_auto_settles_near_the_ratio_of_upstream(window, batch, upstream_ratio):
    factor = effective_factor(Auto(window, batch, 8), upstream_ratio, 30 * window)
    assert factor == pytest.approx(min(upstream_ratio, 8), rel=0.08)
