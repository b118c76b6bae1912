"""Assignment of the examples of a global batch to ranks."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from echobuf.cache.distributed.membership import NO_RANK
from echobuf.cache.distributed.sampler import assign, count_held, imbalance


@st.composite
def batches(draw):
    ranks = draw(st.integers(1, 9))
    part = draw(st.integers(0, 12))
    least = draw(st.sampled_from([NO_RANK, 0]))
    most = draw(st.integers(least, ranks - 1))  # some ranks may hold nothing
    holders = st.integers(least, most)
    held = draw(st.lists(holders, min_size=ranks * part, max_size=ranks * part))
    return np.array(held, np.int32), ranks


@given(batches())
def test_all_ranks_take_as_many_and_the_fewest_possible_move(batch):
    holders, ranks = batch
    takers = assign(holders, ranks)
    part = len(holders) // ranks
    assert np.bincount(takers, minlength=ranks).tolist() == [part] * ranks
    counts = count_held(holders, ranks)
    # No rank can take more than its part of what it holds.
    moved = (holders != NO_RANK) & (takers != holders)
    assert moved.sum() == np.maximum(counts - part, 0).sum()
    pairs = set(zip(holders[moved].tolist(), takers[moved].tolist(), strict=True))
    assert len(pairs) <= max(0, ranks - 1)


@given(batches())
def test_a_rank_keeps_the_first_examples_that_it_holds(batch):
    holders, ranks = batch
    takers = assign(holders, ranks).tolist()
    part, kept = len(holders) // ranks, Counter()
    for holder, taker in zip(holders.tolist(), takers, strict=True):
        if holder != NO_RANK:
            assert (taker == holder) == (kept[holder] < part)
            kept[holder] += 1


@given(batches())
def test_imbalance_is_the_share_that_moves_when_all_are_held(batch):
    holders, ranks = batch
    counts = count_held(holders, ranks)
    if NO_RANK in holders or not len(holders):
        return
    moved = (assign(holders, ranks) != holders).sum()
    np.testing.assert_allclose(imbalance(counts), moved / len(holders))


def test_the_example_of_the_paper_sends_two():
    """Three ranks hold 2, 6 and 4 of 12."""
    holders = np.repeat([0, 1, 2], [2, 6, 4])
    assert imbalance(count_held(holders, 3)) == 2 / 12
    assert Counter(assign(holders, 3)[holders == 1].tolist()) == {1: 4, 0: 2}
