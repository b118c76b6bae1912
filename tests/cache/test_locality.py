"""Global batches are those of `DistributedSampler`, whichever rank holds an item."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

import echobuf
from cache_data import COUNT, Numbered, check, size_of
from echobuf.cache.distributed import LocalitySampler, PartitionedDataset
from echobuf.cache.distributed.membership import NO_RANK
from sharing_ranks import Sharing, read

pytestmark = pytest.mark.usefixtures("ranks_here")


class HoldersOf(PartitionedDataset):
    """A cache of one of several ranks that have agreed on these holders."""

    rank = ranks = 0  # in place of the properties

    def __init__(self, rank, ranks, holders):
        self.rank, self.ranks, self.agreed = rank, ranks, holders

    def __len__(self):
        return len(self.agreed)

    def holders(self, settings):
        return self.agreed


def batches(sampler, batch_size):
    """Return the batches that a loader makes of a sampler."""
    indices = list(sampler)
    assert len(indices) == len(sampler)
    return [indices[i : i + batch_size] for i in range(0, len(indices), batch_size)]


def joined(parts):
    return sorted(itertools.chain.from_iterable(parts))


def global_batches(samplers, batch_size):
    of_ranks = [batches(sampler, batch_size) for sampler in samplers]
    assert len({tuple(map(len, each)) for each in of_ranks}) == 1, (
        "as many on all ranks"
    )
    return [joined(parts) for parts in zip(*of_ranks, strict=True)]


def torch_batches(length, ranks, batch_size, epoch, **arguments):
    """Return the global batches of torch's sampler."""
    samplers = []
    for rank in range(ranks):
        sampler = DistributedSampler(range(length), ranks, rank, **arguments)
        sampler.set_epoch(epoch)
        samplers.append(sampler)
    return global_batches(samplers, batch_size)


@settings(max_examples=150)
@given(st.data())
def test_each_global_batch_is_that_of_the_distributed_sampler(data):
    length = data.draw(st.integers(1, 120), "length")
    ranks = data.draw(st.integers(1, 9), "ranks")
    batch_size = data.draw(st.integers(1, 10), "batch_size")
    epoch = data.draw(st.integers(0, 3), "epoch")
    arguments = {
        "seed": data.draw(st.integers(0, 5), "seed"),
        "shuffle": data.draw(st.booleans(), "shuffle"),
        # DistributedSampler itself fails where there is not one for each rank.
        "drop_last": length >= ranks and data.draw(st.booleans(), "drop_last"),
    }
    chance = np.random.default_rng(data.draw(st.integers(0, 99), "held"))
    least = int(chance.integers(NO_RANK, 1))
    holders = chance.integers(least, ranks, length).astype(np.int32)
    samplers = [
        LocalitySampler(
            HoldersOf(r, ranks, holders), batch_size=batch_size, **arguments
        )
        for r in range(ranks)
    ]
    for sampler in samplers:
        sampler.set_epoch(epoch)
    expected = torch_batches(length, ranks, batch_size, epoch, **arguments)
    assert global_batches(samplers, batch_size) == expected


@pytest.mark.parametrize(
    ("ranks", "batch_size", "drop_last", "fits"),
    [
        (1, 6, False, 1.0),
        (2, 8, True, 1.0),
        (3, 4, False, 0.5),
        (4, 3, False, 1.0),
        (4, 64, False, 0.25),
        (7, 2, True, 0.5),
    ],
)
def test_global_batches_are_the_same_while_caches_fill(
    ranks, batch_size, drop_last, fits
):
    each = sum(size_of(Numbered()[n]) for n in range(COUNT)) / ranks
    sharing = Sharing(ranks, lambda _: {"max_bytes": int(fits * each) + 1})
    samplers = [
        LocalitySampler(cache, batch_size=batch_size, seed=3, drop_last=drop_last)
        for cache in sharing.caches
    ]

    def rank_does(rank, cache):
        results = []
        for epoch in range(3):
            samplers[rank].set_epoch(epoch)
            results.append(batches(samplers[rank], batch_size))
            for batch in results[-1]:
                read(cache, batch)
            assert sorted(samplers[rank]) == joined(results[-1]), "the same again"
        return results

    for epoch, results in enumerate(zip(*sharing.run(rank_does), strict=True)):
        found = [joined(parts) for parts in zip(*results, strict=True)]
        assert found == torch_batches(
            COUNT, ranks, batch_size, epoch, seed=3, drop_last=drop_last
        )
    sharing.close()


def test_fewer_items_are_sent_than_without_locality():
    """Count after an epoch that fills caches which hold all items together."""
    sent = {}
    for kind in ("locality", "partitioned"):
        sharing = Sharing(4, source=lambda: Numbered(240))

        samplers = [
            LocalitySampler(cache, batch_size=20)
            if kind == "locality"
            else DistributedSampler(cache, 4, rank)
            for rank, cache in enumerate(sharing.caches)
        ]
        before = 0
        for epoch in range(3):
            for sampler in samplers:
                sampler.set_epoch(epoch)
            sharing.run(lambda rank, cache, own=samplers: read(cache, own[rank]))
            before = before if epoch else sharing.sum("from_peers")
        sent[kind] = sharing.sum("from_peers") - before
        assert sharing.reads == list(range(240)), "each once"
        sharing.close()
    assert 300 < sent["partitioned"] < 420  # three of four are another rank's
    assert sent["locality"] < sent["partitioned"] / 4


def test_a_data_loader_and_an_echo_loader_serve_each_item():
    def transform(got):  # arrays and numbers alone
        return {"x": got["x"], "y": got["y"]}

    sharing = Sharing(2, lambda rank: {"transform": transform})

    def rank_does(rank, cache):
        sampler = LocalitySampler(cache, batch_size=5)
        echoed = echobuf.EchoLoader(
            cache, sampler=sampler, batch_size=5, window=10, factor=2
        )
        assert len(echoed) == 8
        echoed.set_epoch(1)
        served = [int(y) for batch in echoed for y in batch["y"]]
        loader = DataLoader(cache, sampler=sampler, batch_size=5)
        sampler.set_epoch(2)
        plain = []
        for batch in loader:
            for x, y in zip(batch["x"], batch["y"], strict=True):
                assert (x.numpy() == Numbered()[int(y)]["x"]).all()
                plain.append(int(y))
        return served, plain

    served, plain = zip(*sharing.run(rank_does), strict=True)
    assert joined(served) == sorted([*range(COUNT)] * 2)
    assert joined(plain) == list(range(COUNT))
    sharing.close()


def test_different_settings_are_named_on_all_ranks():
    sharing = Sharing(3)

    def rank_does(rank, cache):
        sampler = LocalitySampler(cache, batch_size=4 + (rank == 2))
        sampler.set_epoch(7)
        with pytest.raises(echobuf.OptionError, match="`batch_size` differs") as caught:
            iter(sampler)
        assert "rank 0: 4, rank 1: 4, rank 2: 5" in str(caught.value)
        return list(LocalitySampler(cache, batch_size=4))  # they may go on

    assert set(joined(sharing.run(rank_does))) == set(range(COUNT))
    sharing.close()


def test_different_epochs_are_named():
    sharing = Sharing(2)

    def rank_does(rank, cache):
        sampler = LocalitySampler(cache, batch_size=4)
        sampler.set_epoch(rank)
        with pytest.raises(echobuf.OptionError, match=r"`epoch` .* 0: 0, rank 1: 1"):
            iter(sampler)

    sharing.run(rank_does)
    sharing.close()


def test_arguments_out_of_range_are_refused():
    sharing = Sharing(1)
    (cache,) = sharing.caches
    for arguments, named in (
        ({"batch_size": 0}, "`batch_size` is 0"),
        ({"batch_size": 2.5}, "`batch_size` is 2.5"),
        ({"batch_size": 1, "seed": -1}, "`seed` is -1"),
        ({"batch_size": 1, "shuffle": 1}, "`shuffle` is 1"),
        ({"batch_size": 1, "drop_last": None}, "`drop_last` is None"),
    ):
        with pytest.raises(echobuf.OptionError, match=named):
            LocalitySampler(cache, **arguments)
    with pytest.raises(echobuf.OptionError, match="`cache` is a list"):
        LocalitySampler([1, 2], batch_size=1)
    with pytest.raises(echobuf.OptionError, match="`epoch` is -1"):
        LocalitySampler(cache, batch_size=1).set_epoch(-1)
    read(cache, LocalitySampler(cache, batch_size=3))
    check(cache[-1], COUNT - 1)
    sharing.close()


def test_the_largest_batch_is_of_31_bits():
    cache = HoldersOf(0, 1, np.zeros(4, np.int32))
    assert len(LocalitySampler(cache, batch_size=2**31 - 1)) == 4
    with pytest.raises(echobuf.OptionError, match="`batch_size` is 2147483648"):
        LocalitySampler(cache, batch_size=2**31)
