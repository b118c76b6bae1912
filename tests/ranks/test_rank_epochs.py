"""Epochs of loaders with `uneven`, on ranks that are threads."""

from __future__ import annotations

import operator
import time
from collections import Counter

import pytest

pytest.importorskip("torch")

import torch

import echobuf
from ranks import rank_threads
from ranks.rank_loaders import ids, make, shard
from ranks.rank_threads import RankThreads


@pytest.fixture(autouse=True)
def ranks_are_threads(monkeypatch):
    rank_threads.patch(monkeypatch)


def length_alone(upstream, epoch, **more):
    """Return the number of batches of an epoch without `uneven`."""
    loader = make(upstream, None, **more)
    loader.set_epoch(epoch)
    return len(loader)


@pytest.mark.parametrize("uneven", ["drop", "pad"])
@pytest.mark.parametrize("factor", [2, 2.5, 1])
def test_unequal_shards_give_all_ranks_as_many_batches(uneven, factor):
    lengths = [20, 60, 41]

    def rank_does(rank):
        loader = make(shard(0, 1, lengths[rank]), uneven, factor=factor)
        said, epochs = [], []
        for _ in range(2):
            said.append(len(loader))
            epochs.append(ids(loader))
        assert loader.state_dict()["epoch"] == 2
        return said, epochs

    for length, (said, epochs) in zip(
        lengths, RankThreads(3).run(rank_does), strict=True
    ):
        assert epochs[0] != epochs[1]
        for number, epoch in enumerate(epochs):
            alone = [
                length_alone(shard(0, 1, n), number, factor=factor) for n in lengths
            ]
            own = alone[lengths.index(length)]
            batches = {"drop": min, "pad": max}[uneven](alone)
            assert said[number] == len(epoch) == batches
            uses = Counter(i for each in epoch[:own] for i in each)
            assert set(uses) <= set(range(length))
            if own <= batches:
                assert set(uses.values()) <= {int(factor), int(factor + 0.5)}
                assert len(uses) == length
            assert all(each == epoch[own - 1] for each in epoch[own:]), "the last again"


@pytest.mark.parametrize("uneven", ["drop", "pad"])
def test_the_most_batches_are_the_same_on_all_ranks(uneven):
    lengths = [20, 60, 41]
    alone = [-(-n * 3 // 4) for n in lengths]

    def rank_does(rank):
        loader = make(shard(0, 1, lengths[rank]), uneven, factor="auto", max_factor=3)
        assert bool(loader)
        most = loader.max_batches()
        assert len(ids(loader)) <= most
        return most

    assert set(RankThreads(3).run(rank_does)) == {
        {"drop": min, "pad": max}[uneven](alone)
    }


@pytest.mark.parametrize("uneven", ["drop", "pad"])
def test_ranks_carry_objects_and_pad_with_the_same(uneven):
    lengths = [20, 44]

    def rank_does(rank):
        names = [f"{rank}/{i}" for i in range(lengths[rank])]
        upstream = [
            {"names": name, "none": None, "id": i} for i, name in enumerate(names)
        ]
        loader = make(upstream, uneven, factor=2)
        count = 0
        for batch in loader:
            of_ids = [names[i] for i in batch["id"].tolist()]
            assert all(map(operator.is_, batch["names"], of_ids))
            assert batch["none"] == [None] * len(of_ids)
            batch["names"].clear()  # the copies that pad have lists of their own
            batch["id"].zero_()
            count += 1
        return count

    results = RankThreads(2).run(rank_does)
    assert results == [results[0]] * 2
    assert isinstance(results[0], int)


def test_a_loader_that_is_closed_is_a_rank_that_has_left():
    def rank_does(rank):
        loader = make(shard(rank, 2, 80), "drop")
        epoch = iter(loader)
        next(epoch)
        if rank == 0:
            loader.close()
            for use in (lambda: next(epoch), lambda: len(loader), loader.state_dict):
                with pytest.raises(echobuf.ClosedError, match="loader was closed"):
                    use()
            return
        with pytest.raises(echobuf.UpstreamError, match="rank 0"):
            list(epoch)

    RankThreads(2).run(rank_does)


@pytest.mark.parametrize("uneven", ["drop", "pad"])
def test_len_is_exact_for_each_epoch_with_a_fraction_and_different_seeds(uneven):
    """Epochs shorter than a segment: lengths differ by a factor of two."""
    more = {"window": 32, "batch_size": 1, "factor": 1.5}
    by_length = {
        length_alone(shard(0, 1, 8), 0, seed=seed, **more): seed for seed in range(9)
    }
    assert sorted(by_length) == [8, 16]
    shards = [(8, by_length[8]), (9, by_length[8]), (7, by_length[16])]
    pick = {"drop": min, "pad": max}[uneven]
    expected = [
        pick(length_alone(shard(0, 1, n), e, seed=s, **more) for n, s in shards)
        for e in range(6)
    ]

    def rank_does(rank):
        length, seed = shards[rank]
        loader = make(shard(0, 1, length), uneven, seed=seed, **more)
        loader.set_epoch(1)
        first = next(iter(loader))
        state = loader.state_dict()
        assert len(loader) == expected[2], "the epoch of the loop that was left is over"
        for number in range(2, 5):
            assert len(loader) == expected[number]
            assert len(ids(loader)) == expected[number]
        loader.load_state_dict(state)
        assert len(loader) == expected[1]
        assert 1 + len(ids(loader)) == expected[1]
        return first

    for result in RankThreads(3).run(rank_does):
        assert not isinstance(result, Exception), result


def test_auto_gives_ranks_of_different_speed_as_many_batches():
    class Slow:
        def __init__(self, seconds):
            self.seconds = seconds

        def __iter__(self):
            for i in range(100):
                time.sleep(self.seconds)
                yield {"id": torch.tensor(i)}

    def rank_does(rank):
        return ids(make(Slow([0.0005, 0.004][rank]), "drop", factor="auto"))

    fast, slow = RankThreads(2).run(rank_does)
    assert len(fast) == len(slow) >= 25
    for epoch in (fast, slow):
        assert max(Counter(i for each in epoch for i in each).values()) <= 8


@pytest.mark.parametrize("uneven", ["drop", "pad"])
def test_epochs_without_examples_end_at_once(uneven):
    assert RankThreads(2).run(lambda rank: ids(make([], uneven))) == [[], []]


def test_an_empty_shard_ends_the_epoch_or_is_an_error_with_padding():
    assert RankThreads(2).run(lambda r: ids(make(shard(0, 1, 8 * r), "drop"))) == [
        [],
        [],
    ]
    for error in RankThreads(2).run(lambda r: ids(make(shard(0, 1, 8 * r), "pad"))):
        assert isinstance(error, echobuf.UpstreamError)
        assert "rank 0 has no batch to pad with: its shard has too few" in str(error)


def test_a_padding_batch_is_the_callers_to_change():
    def rank_does(rank):
        batches = []
        for batch in make(shard(0, 1, [8, 24][rank]), "pad", factor=1):
            batches.append(batch["id"].tolist())
            batch["id"].fill_(-1)
        return batches

    short, _ = RankThreads(2).run(rank_does)
    assert len(short) == 6
    assert short[2:] == [short[1]] * 4


def test_overlapping_epochs_have_as_many_batches():
    def rank_does(rank):
        loader = make(shard(0, 1, [40, 48][rank]), "drop", overlap_epochs=True)
        return [ids(loader) for _ in range(3)]

    one, two = RankThreads(2).run(rank_does)
    assert [len(epoch) for epoch in one + two] == [20] * 6
    assert Counter(i for each in one[2] for i in each) == dict.fromkeys(range(40), 2)
