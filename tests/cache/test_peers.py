"""Ranks that ask each other before they read from the source."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

pytest.importorskip("torch")

import echobuf
from cache_data import COUNT, check, in_child, item, size_of, store_of
from echobuf.cache.distributed import LocalitySampler, PartitionedDataset
from echobuf.cache.items import ItemEncoder
from helpers import Worker
from sharing_ranks import Sharing, read

pytestmark = pytest.mark.usefixtures("ranks_here")


def shuffled(seed):
    return random.Random(seed).sample(range(COUNT), COUNT)


def split(rank, ranks, seed):
    """Return a rank's part of an order."""
    return shuffled(seed)[rank::ranks]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_each_item_is_read_once(place, ranks):
    directories = [place() for _ in range(ranks)]
    sharing = Sharing(ranks, lambda rank: {"directory": directories[rank]})
    for seed in range(4):
        sharing.run(
            lambda rank, cache, seed=seed: read(cache, split(rank, ranks, seed))
        )
    assert sharing.reads == list(range(COUNT))
    assert sharing.sum("misses") == sharing.sum("items") == COUNT
    assert sharing.sum("hits") + sharing.sum("from_peers") == 3 * COUNT
    for rank, cache in enumerate(sharing.caches):
        held = np.flatnonzero(store_of(cache).stored_mask(COUNT))
        assert held.tolist() == list(range(rank, COUNT, ranks))
    mean = size_of(item(0))
    assert (
        abs(sharing.sum("peer_bytes") - mean * sharing.sum("from_peers")) < 100 * COUNT
    )
    sharing.close()


def test_threads_of_all_ranks_read_at_any_time():
    """No thread waits for another rank to read as much."""
    sharing = Sharing(3)

    def rank_does(rank, cache):
        def work(seed):
            for number in shuffled(seed)[: 10 + 10 * rank]:
                check(cache[number], number)
            batch = shuffled(seed + 1)[:9] + [seed] * 2
            for number, got in zip(batch, cache.__getitems__(batch), strict=True):
                check(got, number)

        for worker in [Worker(work, i + rank) for i in range(3)]:
            worker.result()

    sharing.run(rank_does)
    assert sharing.sum("damaged") == 0
    assert all(cache.stats().lost == () for cache in sharing.caches)
    sharing.close()


def test_fetched_items_are_the_callers_to_change():
    sharing = Sharing(2)
    one, two = sharing.caches
    read(two, [1])
    first, second = one.__getitems__([1, 1])
    first["x"][:] = 0
    check(second, 1)
    check(one[1], 1)
    assert sharing.reads == [1]
    sharing.close()


def test_a_full_rank_keeps_no_more_items():
    size = max(size_of(item(number)) for number in range(COUNT))
    sharing = Sharing(2, lambda rank: {"max_bytes": 5 * size})
    for _ in range(3):
        sharing.run(lambda rank, cache: read(cache, split(rank, 2, 1)))
    for cache in sharing.caches:
        assert cache.stats().items == 5
        assert cache.stats().bytes <= 5 * size
    assert len(sharing.reads) == COUNT + 2 * (COUNT - 10)
    sharing.close()


def test_shared_items_are_prepared_once_and_transformed_at_each_access():
    sharing = Sharing(
        2,
        lambda rank: {
            "prepare": _label,
            "transform": lambda got: (rank, got),
        },
    )
    one, two = sharing.caches
    assert one[1] == (0, 10)
    assert two[1] == (1, 10)
    assert one[1] == (0, 10)
    assert sharing.reads == [1]
    sharing.close()


def _label(got):
    return got["y"] * 10


def test_a_damaged_item_of_a_peer_is_read_and_given_again():
    sharing = Sharing(2)
    one, two = sharing.caches
    read(two, [1])
    view = store_of(two).memory.view
    view[bytes(view).index(ItemEncoder(item(1)).encode(1)) + 60] ^= 1
    check(one[1], 1)
    assert one.stats().damaged == 1
    assert sharing.reads == [1, 1]
    check(one[1], 1)
    check(two[1], 1)
    assert sharing.reads == [1, 1], "stored anew"
    sharing.close()


def test_errors_of_the_source_are_raised():
    sharing = Sharing(2, source=lambda: [lambda: None] * 4)
    with pytest.raises(echobuf.SpecError, match="cannot be cached"):
        sharing.caches[0][1]
    with pytest.raises(IndexError):
        sharing.caches[0][4]
    sharing.close()


def test_forked_children_fetch_from_peers(place):
    directories = [place() for _ in range(2)]
    sharing = Sharing(2, lambda rank: {"directory": directories[rank]})
    one, two = sharing.caches
    read(two, range(COUNT))
    before = two.stats()

    def work():
        read(one, range(COUNT))
        with pytest.raises(echobuf.ForkError, match="forked child"):
            iter(LocalitySampler(one, batch_size=1))

    read(one, [1])  # over a connection that is not the child's
    one.flush()
    in_child(work)
    read(one, range(COUNT))
    assert one.stats().misses == 0
    assert two.stats() == before
    sharing.close()


def test_a_forked_child_does_not_keep_its_parents_server_alive():
    """Its copies of the sockets are closed, so a request fails at once."""
    sharing = Sharing(2, lambda rank: {"timeout_s": 60})
    one, two = sharing.caches
    read(one, [1])
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(receiver, 1)
        os._exit(0)
    try:
        two.close()
        with pytest.warns(RuntimeWarning, match="rank 1 does not answer"):
            check(one[1], 1)
    finally:
        os.write(sender, b".")
        os.waitpid(child, 0)
        os.close(receiver)
        os.close(sender)
    sharing.close()


def test_a_spawned_worker_cannot_iterate_the_sampler():
    sharing = Sharing(1)
    (cache,) = sharing.caches
    copy = PartitionedDataset.__new__(PartitionedDataset)
    copy.__dict__.update(cache.__getstate__())
    with pytest.raises(echobuf.ForkError, match="worker process"):
        iter(LocalitySampler(copy, batch_size=1))
    read(copy, [1])
    copy.close()
    sharing.close()
