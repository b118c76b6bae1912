"""Epochs of loaders with `uneven`, one a thread, which know each other as ranks do."""

from __future__ import annotations

import time
from collections import Counter

import pytest

pytest.importorskip("torch")

import torch

import echobuf
from ranks import rank_threads
from ranks.rank_loaders import ids, make, shard
from ranks.rank_threads import Threads


@pytest.fixture(autouse=True)
def ranks_are_threads(monkeypatch):
    rank_threads.patch(monkeypatch)


@pytest.mark.parametrize("uneven", ["drop", "pad"])
@pytest.mark.parametrize("factor", [2, 2.5, 1])
def test_shards_of_unequal_length(uneven, factor):
    lengths = [20, 60, 41]
    alone = [len(make(shard(0, 1, n), None, factor=factor)) for n in lengths]
    batches = {"drop": min, "pad": max}[uneven](alone)

    def rank_does(rank):
        loader = make(shard(0, 1, lengths[rank]), uneven, factor=factor)
        assert len(loader) == batches
        epochs = [ids(loader) for _ in range(2)]
        assert loader.state_dict()["epoch"] == 2
        return epochs

    for length, own, epochs in zip(
        lengths, alone, Threads(3).run(rank_does), strict=True
    ):
        assert epochs[0] != epochs[1]
        for epoch in epochs:
            assert len(epoch) == batches
            uses = Counter(i for each in epoch[:own] for i in each)
            assert set(uses) <= set(range(length))
            if own <= batches:
                assert set(uses.values()) <= {int(factor), int(factor + 0.5)}
                assert len(uses) == length
            assert all(each == epoch[own - 1] for each in epoch[own:]), "the last again"


def test_auto_where_ranks_differ_in_speed():
    class Slow:
        def __init__(self, seconds):
            self.seconds = seconds

        def __iter__(self):
            for i in range(100):
                time.sleep(self.seconds)
                yield {"id": torch.tensor(i)}

    def rank_does(rank):
        return ids(make(Slow([0.0005, 0.004][rank]), "drop", factor="auto"))

    fast, slow = Threads(2).run(rank_does)
    assert len(fast) == len(slow) >= 25
    for epoch in (fast, slow):
        assert max(Counter(i for each in epoch for i in each).values()) <= 8


@pytest.mark.parametrize("uneven", ["drop", "pad"])
def test_nothing_at_all(uneven):
    assert Threads(2).run(lambda rank: ids(make([], uneven))) == [[], []]


def test_empty_shards():
    assert Threads(2).run(lambda r: ids(make(shard(0, 1, 8 * r), "drop"))) == [[], []]
    for error in Threads(2).run(lambda r: ids(make(shard(0, 1, 8 * r), "pad"))):
        assert isinstance(error, echobuf.UpstreamError)
        assert "rank 0 has no batch to pad with: its shard has too few" in str(error)


def test_what_is_padded_with_is_the_callers():
    def rank_does(rank):
        told = []
        for batch in make(shard(0, 1, [8, 24][rank]), "pad", factor=1):
            told.append(batch["id"].tolist())
            batch["id"].fill_(-1)
        return told

    short, _ = Threads(2).run(rank_does)
    assert len(short) == 6
    assert short[2:] == [short[1]] * 4


def test_overlapping_epochs():
    def rank_does(rank):
        loader = make(shard(0, 1, [40, 48][rank]), "drop", overlap_epochs=True)
        return [ids(loader) for _ in range(3)]

    one, two = Threads(2).run(rank_does)
    assert [len(epoch) for epoch in one + two] == [20] * 6
    assert Counter(i for each in one[2] for i in each) == dict.fromkeys(range(40), 2)
