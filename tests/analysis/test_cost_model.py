"""The cost model: its limits, and simulations of caches and of ranks beside it."""

from __future__ import annotations

import math
import random
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echobuf.analysis import cost_model
from echobuf.analysis.cost_model import Costs
from echobuf.analysis.measurements import Estimate
from rank_simulation import epoch_of
from scripts import BENCH, importable

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


# ---- several ranks

SHARES = st.floats(0, 1)
RANKS = st.integers(1, 2048)
LOCAL = st.integers(1, 512)
COSTS = st.builds(Costs, TIMES, TIMES, TIMES, TIMES)
NEAR = 1 + 1e-9


def moved_in(way, share, ranks, local):
    if way == "partitioned":
        return cost_model.moved_partitioned(share, ranks)
    return cost_model.moved_locality_aware(share, ranks, local)


WAYS = st.sampled_from(["partitioned", "locality-aware"])


@given(COSTS, RANKS)
def test_without_a_cache_it_is_storage_for_all_and_preparation_shared(costs, ranks):
    loading = cost_model.loading_s(costs, ranks, 1.0, 0.0)
    assert loading == pytest.approx(costs.storage_s + costs.prepare_s / ranks)


@given(COSTS, SHARES)
def test_one_rank_is_a_cache_that_never_evicts(costs, share):
    assert moved_in("partitioned", share, 1, 32) == 0
    assert moved_in("locality-aware", share, 1, 32) == 0
    loading = cost_model.loading_s(costs, 1, 1 - share, 0.0)
    hits = cost_model.hits_never_evicted(share)
    cached = cost_model.cached_s(costs.prepare_s, costs.storage_s, hits)
    assert loading == pytest.approx(cached)
    assert cost_model.least_loading_s(costs, 1, 1 - share, 0.0) == pytest.approx(cached)


@given(WAYS, RANKS, LOCAL)
def test_nothing_moves_from_empty_caches(way, ranks, local):
    assert moved_in(way, 0.0, ranks, local) == 0


@given(WAYS, RANKS, LOCAL, SHARES, SHARES)
def test_more_is_moved_from_caches_that_hold_more(way, ranks, local, one, other):
    less, more = sorted((one, other))
    moved = moved_in(way, less, ranks, local)
    assert moved <= moved_in(way, more, ranks, local) * NEAR + 1e-12
    assert 0 <= moved <= less


@given(COSTS, WAYS, RANKS, LOCAL, SHARES, SHARES)
def test_caches_help_where_peers_are_no_slower_than_storage(
    costs, way, ranks, local, one, other
):
    less, more = sorted((one, other))
    peer_s = min(costs.peer_s, costs.storage_s)
    costs = Costs(costs.storage_s, peer_s, costs.prepare_s, costs.step_s)
    few, many = (
        cost_model.loading_s(costs, ranks, 1 - a, moved_in(way, a, ranks, local))
        for a in (less, more)
    )
    assert many <= few * NEAR + 1e-12


@given(COSTS, RANKS, LOCAL, SHARES)
def test_locality_aware_loading_moves_no_more(costs, ranks, local, share):
    moved = [moved_in(way, share, ranks, local) for way in ("partitioned", "locality")]
    assert moved[1] <= moved[0] * NEAR
    partitioned, aware = (
        cost_model.loading_s(costs, ranks, 1 - share, part) for part in moved
    )
    assert aware <= partitioned * NEAR


@given(COSTS, WAYS, RANKS, LOCAL, SHARES)
def test_reading_ahead_is_never_slower(costs, way, ranks, local, share):
    moved = moved_in(way, share, ranks, local)
    in_step = cost_model.loading_s(costs, ranks, 1 - share, moved)
    ahead = cost_model.least_loading_s(costs, ranks, 1 - share, moved)
    assert ahead <= in_step * NEAR
    # Three things at once, at most, and each rank's own.
    assert in_step <= 3 * ahead * NEAR


@given(COSTS, TIMES, RANKS)
def test_an_epoch_takes_as_long_as_the_slower_side(costs, loading, ranks):
    took = cost_model.epoch_s(costs, ranks, loading)
    assert took in (loading, costs.step_s / ranks)
    assert took >= max(loading, costs.step_s / ranks)


@pytest.mark.parametrize(("local", "paper"), [(32, 0.069), (64, 0.048), (128, 0.034)])
def test_moved_share_of_whole_caches_is_near_the_papers_simulation(local, paper):
    moved = cost_model.moved_locality_aware(1.0, 1024, local)
    assert moved == pytest.approx(paper, abs=0.002)
    # De Moivre's mean deviation of a binomial distribution, half of it.
    about = math.sqrt((1 - 1 / 1024) / (2 * math.pi * local))
    assert moved == pytest.approx(about, rel=0.02)


@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
@pytest.mark.parametrize(("ranks", "local"), [(2, 8), (4, 32), (16, 16)])
def test_moved_share_is_that_of_balls_in_bins(share, ranks, local):
    chance = random.Random(5)
    rounds = 3000
    surplus = 0
    for _ in range(rounds):
        held = [0] * ranks
        for _ in range(ranks * local):
            if (ball := chance.random() / share) < 1:
                held[int(ball * ranks)] += 1
        surplus += sum(max(0, each - local) for each in held)
    simulated = surplus / (rounds * ranks * local)
    moved = cost_model.moved_locality_aware(share, ranks, local)
    assert moved == pytest.approx(simulated, rel=0.05, abs=5e-4)


@given(RANKS, st.integers(1, 10**6), SHARES)
def test_a_share_moves_whatever_the_sizes(ranks, local, share):
    moved = cost_model.moved_locality_aware(share, ranks, local)
    assert 0 <= moved <= share


@pytest.fixture(name="machine")
def _machine(monkeypatch):
    with importable(monkeypatch, BENCH) as script:
        yield script("rank_machine")


RATES = [
    (4000, 16000, 5000, 16000),
    (16000, 5000, 5000, 16000),
    (9000, 9000, 5000, 2000),
]


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("ranks", [1, 4, 8])
@pytest.mark.parametrize("share", [0.0, 0.35, 0.65, 1.0])
@pytest.mark.parametrize("way", ["partitioned", "locality-aware"])
def test_an_epoch_of_ranks_takes_what_is_predicted(machine, way, share, ranks, rates):
    """Of examples that come from where they are, not from where they should be."""
    job = machine.Job(way, share, ranks, local_batch=64, steps=128 // ranks)
    batches = machine.sources(job).tolist()
    costs = Costs(*(1 / rate for rate in rates))
    moved = moved_in(way, share, ranks, 64)
    in_step, least = (
        job.examples
        * cost_model.epoch_s(costs, ranks, of(costs, ranks, 1 - share, moved))
        for of in (cost_model.loading_s, cost_model.least_loading_s)
    )
    assert epoch_of(batches, 64, costs, together=True) == pytest.approx(
        in_step, rel=0.02
    )
    alone = epoch_of(batches, 64, costs, together=False)
    assert 0.98 * least <= alone <= 1.02 * in_step


def test_every_example_comes_from_somewhere(machine):
    for way in ("partitioned", "locality-aware"):
        job = machine.Job(way, 0.5, ranks=4, local_batch=16, steps=50)
        stored, moved = machine.sources(job).sum((0, 1))
        assert stored == job.examples / 2
        assert 0 <= moved <= job.examples / 2
        assert machine.sources(job).sum(2).max() <= 16


def test_ranks_on_threads_run_to_their_end(machine):
    job = machine.Job("partitioned", 0.5, ranks=3, local_batch=4, steps=3)
    costs = Costs(*[1e-5] * 4)
    for mode in machine.MODES:
        assert machine.Machine(job, costs, mode).run() > 0
