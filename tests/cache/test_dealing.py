"""Who takes which example of a global batch."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from echobuf.cache.distributed.dealing import NOBODY, counts_of, deal, imbalance


@st.composite
def batches(draw):
    ranks = draw(st.integers(1, 9))
    part = draw(st.integers(0, 12))
    least = draw(st.sampled_from([NOBODY, 0]))
    most = draw(st.integers(least, ranks - 1))  # some ranks may hold nothing
    holders = st.integers(least, most)
    held = draw(st.lists(holders, min_size=ranks * part, max_size=ranks * part))
    return np.array(held, np.int32), ranks


@given(batches())
def test_all_take_as_many_and_as_few_as_can_be_move(batch):
    holders, ranks = batch
    takers = deal(holders, ranks)
    part = len(holders) // ranks
    assert np.bincount(takers, minlength=ranks).tolist() == [part] * ranks
    counts = counts_of(holders, ranks)
    # No rank can take more than its part of what it holds.
    moved = (holders != NOBODY) & (takers != holders)
    assert moved.sum() == np.maximum(counts - part, 0).sum()
    pairs = set(zip(holders[moved].tolist(), takers[moved].tolist(), strict=True))
    assert len(pairs) <= max(0, ranks - 1)


@given(batches())
def test_a_rank_keeps_the_first_of_what_it_holds(batch):
    holders, ranks = batch
    takers = deal(holders, ranks).tolist()
    part, kept = len(holders) // ranks, Counter()
    for holder, taker in zip(holders.tolist(), takers, strict=True):
        if holder != NOBODY:
            assert (taker == holder) == (kept[holder] < part)
            kept[holder] += 1


@given(batches())
def test_imbalance_is_what_moves_where_all_is_held(batch):
    holders, ranks = batch
    counts = counts_of(holders, ranks)
    if NOBODY in holders or not len(holders):
        return
    moved = (deal(holders, ranks) != holders).sum()
    np.testing.assert_allclose(imbalance(counts), moved / len(holders))


def test_the_example_of_the_paper():
    """Three ranks hold 2, 6 and 4 of 12: two are sent."""
    holders = np.repeat([0, 1, 2], [2, 6, 4])
    assert imbalance(counts_of(holders, 3)) == 2 / 12
    assert Counter(deal(holders, 3)[holders == 1].tolist()) == {1: 4, 0: 2}
