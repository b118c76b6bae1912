"""Ranks that ask each other before they read from the source."""

from __future__ import annotations

import os
import random
import socket
import threading

import numpy as np
import pytest

pytest.importorskip("torch")

import echobuf
import sharing_ranks
from cache_data import COUNT, Numbered, check, in_child, item, size_of
from echobuf.cache import record
from echobuf.cache.distributed import (
    LocalitySampler,
    PartitionedDataset,
    address,
    frames,
)
from leaked_threads import no_feeder
from sharing_ranks import Sharing, read


@pytest.fixture(autouse=True)
def _ranks(monkeypatch):
    sharing_ranks.patch(monkeypatch)
    yield
    no_feeder()


def shuffled(seed):
    return random.Random(seed).sample(range(COUNT), COUNT)


def split(rank, ranks, seed):
    """A rank's part of an order."""
    return shuffled(seed)[rank::ranks]


# ---- what is read, and from where


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
        held = np.flatnonzero(cache._store.held(COUNT))
        assert held.tolist() == list(range(rank, COUNT, ranks))
    mean = size_of(item(0))
    assert (
        abs(sharing.sum("peer_bytes") - mean * sharing.sum("from_peers")) < 100 * COUNT
    )
    sharing.close()


def test_ranks_read_what_and_when_they_like():
    """Threads of each, of which none waits for another rank to read as much."""
    sharing = Sharing(3)

    def rank_does(rank, cache):
        failed = []

        def work(seed):
            try:
                for number in shuffled(seed)[: 10 + 10 * rank]:
                    check(cache[number], number)
                batch = shuffled(seed + 1)[:9] + [seed] * 2
                for number, got in zip(batch, cache.__getitems__(batch), strict=True):
                    check(got, number)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(i + rank,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not failed

    sharing.run(rank_does)
    assert sharing.sum("damaged") == 0
    assert all(cache.stats().lost == () for cache in sharing.caches)
    sharing.close()


def test_items_are_the_callers():
    sharing = Sharing(2)
    one, two = sharing.caches
    read(two, [1])
    first, second = one.__getitems__([1, 1])
    first["x"][:] = 0
    check(second, 1)
    check(one[1], 1)
    assert sharing.reads == [1]
    sharing.close()


def test_no_more_is_kept_than_fits():
    size = max(size_of(item(number)) for number in range(COUNT))
    sharing = Sharing(2, lambda rank: {"max_bytes": 5 * size})
    for _ in range(3):
        sharing.run(lambda rank, cache: read(cache, split(rank, 2, 1)))
    for cache in sharing.caches:
        assert cache.stats().items == 5
        assert cache.stats().bytes <= 5 * size
    assert len(sharing.reads) == COUNT + 2 * (COUNT - 10)
    sharing.close()


def test_prepared_once_and_transformed_at_each_access():
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


def test_what_a_peer_holds_damaged_is_read_and_given_again():
    sharing = Sharing(2)
    one, two = sharing.caches
    read(two, [1])
    begin = bytes(two._store._bytes).index(record.Draft(item(1)).seal(1))
    two._store._bytes[begin + 60] ^= 1
    check(one[1], 1)
    assert one.stats().damaged == 1
    assert sharing.reads == [1, 1]
    check(one[1], 1)
    check(two[1], 1)
    assert sharing.reads == [1, 1], "mended"
    sharing.close()


def test_errors_of_the_source_come_through():
    sharing = Sharing(2, source=lambda: [lambda: None] * 4)
    with pytest.raises(echobuf.SpecError, match="cannot be cached"):
        sharing.caches[0][1]
    with pytest.raises(IndexError):
        sharing.caches[0][4]
    sharing.close()


# ---- ranks that are gone


def test_the_share_of_a_lost_rank_is_read_from_the_source():
    sharing = Sharing(3)
    sharing.run(lambda rank, cache: read(cache, split(rank, 3, 0)))
    sharing.caches[1].close()
    before = len(sharing.reads)
    for rank in (0, 2):
        with pytest.warns(RuntimeWarning, match="rank 1 does not answer") as told:
            read(sharing.caches[rank], range(COUNT))
        assert len(told) == 1, "once"
        assert sharing.caches[rank].stats().lost == (1,)
    assert len(sharing.reads) == before + 2 * len(range(1, COUNT, 3))
    sharing.close()


def test_or_is_an_error_for_the_others():
    sharing = Sharing(3, lambda rank: {"on_lost": "raise"})
    sharing.run(lambda rank, cache: read(cache, split(rank, 3, 0)))
    sharing.caches[1].close()
    for rank in (0, 2):
        cache = sharing.caches[rank]
        for number in (1, 1, (rank + 2) % 4):  # whatever else it asks for
            with pytest.raises(echobuf.UpstreamError, match="rank 1 of the cache"):
                cache[number]
        check(cache[rank], rank)  # its own is there
    sharing.close()


def test_a_rank_that_never_answers_is_given_up(monkeypatch):
    sharing = Sharing(2, lambda rank: {"timeout_s": 0.2})
    one, two = sharing.caches
    two.close()
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = ("127.0.0.1", mute.getsockname()[1])
        monkeypatch.setattr(one._sharing.peers._lines[1], "_address", address)
        with pytest.warns(RuntimeWarning, match="rank 1 does not answer"):
            check(one[1], 1)
        check(one[3], 3)
    sharing.close()


def test_a_connection_that_was_cut_is_made_again():
    sharing = Sharing(2)
    one, _ = sharing.caches
    read(one, [1])
    for _ in range(2):
        one._sharing.peers._lines[1]._socket.shutdown(socket.SHUT_RDWR)
        read(one, [1, 3])
    assert one.stats().lost == ()
    assert sharing.reads == [1, 3]
    sharing.close()


def test_a_lost_rank_is_left_out_when_the_others_agree(monkeypatch):
    monkeypatch.setattr("echobuf.torch.ranks.meeting._LOOK_S", 0.01)
    sharing = Sharing(3)
    sharing.run(lambda rank, cache: read(cache, split(rank, 3, 0)))
    sharing.caches[2].close()
    for rank in (0, 1):
        roll = sharing.caches[rank]._holdings._meeting._roll
        monkeypatch.setattr(roll, "_ended", lambda: [2])

    def rank_does(rank, cache):
        if rank == 2:
            return None
        sampler = LocalitySampler(cache, batch_size=4)
        return list(sampler), cache.stats().lost

    with pytest.warns(RuntimeWarning, match="rank 2 does not answer"):
        told = sharing.run(rank_does)
    assert [lost for _, lost in told[:2]] == [(2,)] * 2
    (one, _), (two, _) = told[:2]
    assert len(one) == len(two) == len(LocalitySampler(sharing.caches[0], batch_size=4))
    assert not {*one} & {*two}, "nothing twice"
    sharing.close()


@pytest.mark.parametrize(("gone", "on_lost"), [(0, "storage"), (1, "raise")])
def test_who_cannot_agree_is_told_why(monkeypatch, gone, on_lost):
    monkeypatch.setattr("echobuf.torch.ranks.meeting._LOOK_S", 0.01)
    sharing = Sharing(2, lambda rank: {"on_lost": on_lost})
    cache = sharing.caches[1 - gone]
    monkeypatch.setattr(cache._holdings._meeting._roll, "_ended", lambda: [gone])
    with pytest.raises(echobuf.UpstreamError, match=f"rank {gone} is gone"):
        iter(LocalitySampler(cache, batch_size=4))
    sharing.close()


# ---- strangers


def connect(cache):
    opened = socket.create_connection(("127.0.0.1", cache._server.port), 10)
    opened.settimeout(10)
    return opened


def closed(opened):
    """Whether the other side has hung up, without a word."""
    try:
        return opened.recv(1) == b""
    except ConnectionError:
        return True


def greeted(sharing):
    opened = connect(sharing.caches[0])
    token = sharing.caches[1]._sharing.peers._token
    opened.sendall(frames.GREETING.pack(frames.MAGIC, token))
    assert opened.recv(8) == frames.WELCOME
    return opened


def test_strangers_are_refused():
    sharing = Sharing(2)
    one, two = sharing.caches
    assert one._server is not None
    token = two._sharing.peers._token
    assert len(token) == frames.TOKEN_BYTES
    for said in (
        frames.GREETING.pack(frames.MAGIC, bytes(32)),
        frames.GREETING.pack(b"ecbpeer0", token),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".ljust(frames.GREETING.size),
    ):
        with connect(one) as stranger:
            stranger.sendall(said)
            assert closed(stranger)
    read(two, range(COUNT))
    sharing.close()


def test_what_no_rank_says_is_not_answered():
    sharing = Sharing(2)
    read(sharing.caches[0], [0])
    for request in (
        frames.REQUEST.pack(9, 1) + frames.words([0]),
        frames.REQUEST.pack(frames.ASK, 1) + frames.words([COUNT]),
        frames.REQUEST.pack(frames.ASK, frames.MOST_ITEMS + 1),
        frames.REQUEST.pack(frames.GIVE, 1) + frames.words([0, 2**40]),
    ):
        with greeted(sharing) as peer:
            peer.sendall(request)
            assert closed(peer)
    torn = bytes(record.Draft(item(2)).seal(2))[:-1] + b"\x7f"
    with greeted(sharing) as peer:
        peer.sendall(
            frames.REQUEST.pack(frames.GIVE, 2)
            + frames.words([2, 4, len(torn), len(torn)])
            + torn
            + torn
        )
        assert peer.recv(frames.TAKEN.size) == frames.TAKEN.pack(0)
    assert sharing.caches[0].stats().items == 1, "nothing unsound is kept"
    read(sharing.caches[1], [0])
    assert sharing.reads == [0]
    sharing.close()


# ---- processes


def test_forked_children_ask_too(place):
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


def test_a_child_that_stays_does_not_stand_in_for_its_parent():
    """It has the sockets closed: nobody waits for an answer from it."""
    sharing = Sharing(2, lambda rank: {"timeout_s": 60})
    one, two = sharing.caches
    read(one, [1])
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(told, 1)
        os._exit(0)
    try:
        two.close()
        with pytest.warns(RuntimeWarning, match="rank 1 does not answer"):
            check(one[1], 1)
    finally:
        os.write(tell, b".")
        os.waitpid(child, 0)
        os.close(told)
        os.close(tell)
    sharing.close()


def test_a_spawned_worker_may_not_agree():
    sharing = Sharing(1)
    (cache,) = sharing.caches
    copy = PartitionedDataset.__new__(PartitionedDataset)
    copy.__dict__.update(cache.__getstate__())
    with pytest.raises(echobuf.ForkError, match="worker process"):
        iter(LocalitySampler(copy, batch_size=1))
    read(copy, [1])
    copy.close()
    sharing.close()


# ---- arguments


def errors(ranks, arguments):
    sharing = Sharing(ranks, arguments)
    assert all(isinstance(made, Exception) for made in sharing.made), sharing.made
    return sharing.made


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("max_bytes", (1000, 2000)),
        ("on_lost", ("raise", "storage")),
        ("timeout_s", (3.0, 4.0)),
        ("prepare", (_label, None)),
        ("identity", ("one", "two")),
    ],
)
def test_arguments_that_differ_are_named_on_all_ranks(name, values):
    for error in errors(3, lambda rank: {name: values[rank == 1]}):
        assert isinstance(error, echobuf.OptionError)
        assert f"`{name}` differs between ranks" in str(error)
        for value in values:
            shown = "_label" if callable(value) else str(value)
            assert shown in str(error)


def test_lengths_that_differ_are_named():
    counts = iter([40, 41])
    sharing = Sharing(2, source=lambda: Numbered(next(counts)))
    for error in sharing.made:
        assert isinstance(error, echobuf.OptionError)
        assert "'40 items'" in str(error)
        assert "'41 items'" in str(error)


def test_an_error_of_one_rank_is_one_of_all():
    told = errors(3, lambda rank: {"max_bytes": 10**6 if rank != 1 else 2**59})
    assert isinstance(told[1], echobuf.CapacityError)
    for other in (told[0], told[2]):
        assert isinstance(other, echobuf.UpstreamError)
        assert "rank 1 could not make its cache: `max_bytes`" in str(other)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"on_lost": "ignore"}, "`on_lost` is 'ignore'"),
        ({"timeout_s": 0}, "`timeout_s` is 0"),
        ({"timeout_s": None}, "`timeout_s` is None"),
        ({"timeout_s": "1"}, "`timeout_s` is '1'"),
        ({"max_bytes": 0}, "`max_bytes` is 0"),
        ({"host": 5}, "`host` is 5"),
        ({"host": "203.0.113.7"}, "`host` is '203.0.113.7', where this rank cannot"),
        ({"prepare": 3}, "`prepare` is 3"),
    ],
)
def test_bad_arguments(arguments, named):
    for error in errors(2, lambda rank: arguments):
        assert isinstance(error, echobuf.OptionError)
        assert named in str(error)


def test_data_that_are_iterated():
    sharing = Sharing(2, source=lambda: iter([]))
    for error in sharing.made:
        assert isinstance(error, echobuf.OptionError)
        assert "without __len__ and __getitem__" in str(error)


def test_without_a_process_group(monkeypatch):
    monkeypatch.undo()
    with pytest.raises(echobuf.OptionError, match="there is no process group: call"):
        PartitionedDataset([1], 1000)


def test_no_collective_is_called(monkeypatch):
    """So it does not matter which backend there is: this one can do nothing."""
    monkeypatch.undo()
    import torch.distributed as dist
    import torch.testing._internal.distributed.fake_pg  # noqa: F401 - "fake"

    dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=1)
    try:
        cache = PartitionedDataset(Numbered(), 10**6)
        for epoch in range(2):
            sampler = LocalitySampler(cache, batch_size=7, seed=epoch)
            numbers = list(sampler)
            assert sorted(numbers) == list(range(COUNT))
            read(cache, numbers)
        assert (cache.stats().misses, cache.stats().hits) == (COUNT, COUNT)
    finally:
        dist.destroy_process_group()


def test_a_dropped_cache_serves_no_more():
    sharing = Sharing(2)
    port = sharing.caches[0]._server.port
    read(sharing.caches[1], range(COUNT))
    del sharing
    no_feeder()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 10).close()


# ---- addresses


def test_where_a_rank_is_reached(monkeypatch):
    here, there = "boot 1", "boot 2"
    loopback, far, near = "127.0.1.1", "198.51.100.9", "198.51.100.1"
    assert address.choose(0, [loopback, loopback], [here, here]) == loopback
    assert address.choose(1, [loopback, far], [here, there]) == far
    monkeypatch.setattr(address, "towards", {far: near}.get)
    assert address.choose(0, [loopback, far], [here, there]) == near
    assert address.choose(0, [loopback, loopback], [here, there]) is None
    monkeypatch.setattr(address, "towards", lambda host: None)
    assert address.choose(0, [loopback, far], [here, there]) is None


def test_the_way_to_this_machine():
    assert address.towards("127.0.0.1") == "127.0.0.1"
    assert address.near(object()) == "127.0.0.1"
