"""Formulas: their limits, and the caches against caches that are simulated."""

from __future__ import annotations

import math
import random
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echobuf.analysis import cost_model
from echobuf.analysis.measurements import Estimate

TIMES = st.floats(1e-7, 10.0)
RATIOS = st.floats(1e-3, 1e3)
FACTORS = st.floats(1.0, 64.0)


def exact(mean: float) -> Estimate:
    return Estimate(mean, mean, mean, 3)


@given(TIMES, TIMES, FACTORS)
def test_speedup_is_that_of_the_times_per_step(upstream, step, factor):
    now = cost_model.fresh_s(upstream, step, 1)
    echoed = cost_model.fresh_s(upstream, step, factor) / factor
    gain = cost_model.speedup(upstream / step, factor)
    assert gain == pytest.approx(now / echoed)


@given(RATIOS, FACTORS)
def test_speedup_is_e_up_to_the_knee_and_r_beyond(ratio, factor):
    expected = min(factor, ratio) if ratio >= 1 else 1.0
    assert cost_model.speedup(ratio, factor) == pytest.approx(expected)


def test_speedup_without_a_step_is_the_factor():
    assert cost_model.speedup(math.inf, 8) == 8


@given(RATIOS, FACTORS)
def test_auto_settles_between_one_and_the_largest_factor(ratio, most):
    factor = cost_model.effective_factor(ratio, most)
    assert 1 <= factor <= most
    assert factor in (1, most, ratio)


@given(TIMES, TIMES, st.floats(0, 0.5), st.floats(0, 0.5))
def test_the_interval_of_a_quotient_is_between_that_of_one_and_of_both(a, b, da, db):
    above = Estimate(a, a * (1 - da), a * (1 + da), 5)
    below = Estimate(b, b * (1 - db), b * (1 + db), 7)
    ratio = cost_model.quotient(above, below)
    assert ratio.mean == pytest.approx(a / b)
    assert ratio.count == 5
    near = 1 + 1e-9
    assert above.low / below.high <= ratio.low * near
    assert ratio.high <= above.high / below.low * near
    assert ratio.low <= min(above.low / b, a / below.high) * near
    assert max(above.high / b, a / below.low) <= ratio.high * near


@pytest.mark.parametrize(
    ("above", "below", "low", "high"),
    [
        (exact(1.0), exact(0.0), 0.0, math.inf),
        (Estimate(1.0, -0.5, 2.0, 3), exact(2.0), 0.0, 1.0),
        (exact(1.0), Estimate(2.0, 0.0, 4.0, 3), 0.25, math.inf),
        (Estimate(1.0, 0.5, math.inf, 1), exact(2.0), 0.25, math.inf),
    ],
)
def test_a_quotient_that_is_not_known_has_a_wide_interval(above, below, low, high):
    ratio = cost_model.quotient(above, below)
    assert ratio.low == pytest.approx(low)
    assert ratio.high == pytest.approx(high)


def hits_of_lru(share: float, examples: int, epochs: int) -> float:
    """The hit rate after the first epoch of a cache that is simulated."""
    chance = random.Random(3)
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for epoch in range(epochs):
        for example in chance.sample(range(examples), examples):
            if example in cache:
                hits += epoch > 0
                cache.move_to_end(example)
                continue
            cache[example] = None
            if len(cache) > share * examples:
                cache.popitem(last=False)
    return hits / (examples * (epochs - 1))


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.75, 0.9])
def test_lru_hits_what_is_derived(share):
    simulated = hits_of_lru(share, examples=4000, epochs=8)
    assert cost_model.hits_lru(share) == pytest.approx(simulated, abs=0.01)


def test_a_cache_that_never_evicts_hits_its_share():
    examples, share = 1000, 0.3
    chance = random.Random(4)
    kept = set(chance.sample(range(examples), examples)[: int(share * examples)])
    epoch = chance.sample(range(examples), examples)
    hits = sum(example in kept for example in epoch) / examples
    assert cost_model.hits_never_evicted(share) == hits


@given(st.floats(0, 1))
def test_lru_is_never_better_than_never_evicting(share):
    assert -1e-12 <= cost_model.hits_lru(share) <= cost_model.hits_never_evicted(share)


@given(TIMES, TIMES, st.floats(0, 1), st.floats(1, 100))
def test_upstream_is_between_preparation_and_the_whole(prepare, storage, hits, times):
    near = 1 + 1e-9
    for left in (
        cost_model.cached_s(prepare, storage, hits),
        cost_model.faster_storage_s(prepare, storage, times),
    ):
        assert prepare <= left * near
        assert left <= (prepare + storage) * near


@given(st.floats(0, 1), TIMES, TIMES)
def test_as_many_workers_as_keep_up_and_no_fewer(serial, parallel, step):
    workers = cost_model.workers_to_keep_up(serial, parallel, step)
    if workers is None:
        assert cost_model.with_workers_s(serial, parallel, 2**31) > step * (1 - 1e-6)
        return
    assert cost_model.with_workers_s(serial, parallel, workers) <= step * (1 + 1e-6)
    if workers > 1:
        fewer = cost_model.with_workers_s(serial, parallel, workers - 1)
        assert fewer >= step * (1 - 1e-6)
