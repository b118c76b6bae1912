"""Ranks that are gone, or do not answer."""

from __future__ import annotations

import socket

import pytest

pytest.importorskip("torch")

import echobuf
from cache_data import COUNT, check
from echobuf.cache.distributed import LocalitySampler
from sharing_ranks import Sharing, read

pytestmark = pytest.mark.usefixtures("ranks_here")


def test_the_partition_of_a_lost_rank_is_read_from_the_source():
    sharing = Sharing(3)
    sharing.run(lambda rank, cache: read(cache, range(rank, COUNT, 3)))
    sharing.caches[1].close()
    before = len(sharing.reads)
    for rank in (0, 2):
        with pytest.warns(RuntimeWarning, match="rank 1 does not answer") as caught:
            read(sharing.caches[rank], range(COUNT))
        assert len(caught) == 1, "once"
        assert sharing.caches[rank].stats().lost == (1,)
    assert len(sharing.reads) == before + 2 * len(range(1, COUNT, 3))
    sharing.close()


def test_a_lost_rank_is_an_error_with_on_lost_raise():
    sharing = Sharing(3, lambda rank: {"on_lost": "raise"})
    sharing.run(lambda rank, cache: read(cache, range(rank, COUNT, 3)))
    sharing.caches[1].close()
    for rank in (0, 2):
        cache = sharing.caches[rank]
        for number in (1, 1, (rank + 2) % 4):  # any other items, too
            with pytest.raises(echobuf.UpstreamError, match="rank 1 of the cache"):
                cache[number]
        check(cache[rank], rank)  # its own item is kept
    sharing.close()


def test_a_rank_that_never_answers_is_lost():
    sharing = Sharing(2, lambda rank: {"timeout_s": 0.2})
    one, two = sharing.caches
    two.close()
    with socket.create_server(sharing.listening(1)):
        with pytest.warns(RuntimeWarning, match="rank 1 does not answer"):
            check(one[1], 1)
        check(one[3], 3)
    sharing.close()


def test_a_connection_that_was_cut_is_made_again(monkeypatch):
    connect, made = socket.create_connection, []

    def recorded(*arguments):
        made.append(connect(*arguments))
        return made[-1]

    monkeypatch.setattr(socket, "create_connection", recorded)
    sharing = Sharing(2)
    one, _ = sharing.caches
    read(one, [1])
    for _ in range(2):
        made[-1].shutdown(socket.SHUT_RDWR)
        read(one, [1, 3])
    assert len(made) == 3
    assert one.stats().lost == ()
    assert sharing.reads == [1, 3]
    sharing.close()


def test_a_lost_rank_is_left_out_when_the_others_agree(monkeypatch):
    monkeypatch.setattr("echobuf.ranks.store.CHECK_S", 0.01)
    sharing = Sharing(3)
    sharing.run(lambda rank, cache: read(cache, range(rank, COUNT, 3)))
    sharing.caches[2].close()
    for rank in (0, 1):
        liveness = sharing.threads.liveness[rank]
        monkeypatch.setattr(liveness, "find_gone", lambda: ([2], []))

    def rank_does(rank, cache):
        if rank == 2:
            return None
        sampler = LocalitySampler(cache, batch_size=4)
        return list(sampler), cache.stats().lost

    with pytest.warns(RuntimeWarning, match="rank 2 does not answer"):
        results = sharing.run(rank_does)
    assert [lost for _, lost in results[:2]] == [(2,)] * 2
    (one, _), (two, _) = results[:2]
    assert len(one) == len(two) == len(LocalitySampler(sharing.caches[0], batch_size=4))
    assert not {*one} & {*two}, "nothing twice"
    sharing.close()


@pytest.mark.parametrize(("gone", "on_lost"), [(0, "storage"), (1, "raise")])
def test_a_rank_that_cannot_agree_raises_an_error_that_names_the_gone_rank(
    monkeypatch, gone, on_lost
):
    monkeypatch.setattr("echobuf.ranks.store.CHECK_S", 0.01)
    sharing = Sharing(2, lambda rank: {"on_lost": on_lost})
    cache = sharing.caches[1 - gone]
    liveness = sharing.threads.liveness[1 - gone]
    monkeypatch.setattr(liveness, "find_gone", lambda: ([gone], []))
    with pytest.raises(echobuf.UpstreamError, match=f"rank {gone} is gone"):
        iter(LocalitySampler(cache, batch_size=4))
    sharing.close()
