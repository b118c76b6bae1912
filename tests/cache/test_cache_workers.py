"""Processes and threads that share a cache."""

import functools
import multiprocessing
import random
import sqlite3
import threading

import pytest

from cache_data import (
    COUNT,
    Numbered,
    check,
    check_all,
    in_child,
    item,
    make,
    size_of,
    store_of,
)
from echobuf.cache import disk
from echobuf.cache.items import ItemEncoder
from helpers import Worker

START_METHODS = ["fork", "spawn", "forkserver"]


def read_all(cached, order):
    for number in order:
        check(cached[number], number)


def orders(count):
    return [random.Random(n).sample(range(COUNT), COUNT) for n in range(count)]


def run_all(method, cached, count):
    """Read all items in several processes, each in another order."""
    context = multiprocessing.get_context(method)
    children = [
        context.Process(target=read_all, args=(cached, order))
        for order in orders(count)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        assert child.exitcode == 0


@pytest.mark.parametrize("method", START_METHODS)
def test_processes_share_a_cache(place, method):
    source = Numbered()
    cached = make(place(), source=source)
    run_all(method, cached, 2 if method == "fork" else 1)
    stats = cached.stats()
    assert stats.items == COUNT  # each stored once
    assert stats.bytes == sum(size_of(item(number)) for number in range(COUNT))
    source.reads.clear()
    check_all(cached)
    assert source.reads == []
    after = cached.stats()
    assert after.hits == stats.hits + COUNT
    assert after.misses == stats.misses >= COUNT


def test_processes_that_miss_the_same_items_store_each_once(place):
    cached = make(place())
    for _ in range(2):
        run_all("fork", cached, 4)
    stats = cached.stats()
    assert (stats.items, stats.damaged) == (COUNT, 0)
    assert stats.bytes == sum(size_of(item(number)) for number in range(COUNT))
    assert stats.hits + stats.misses == 8 * COUNT
    assert stats.hits >= 4 * COUNT


def test_many_writing_processes_store_no_more_than_fits(place):
    size = max(size_of(item(number)) for number in range(COUNT))
    cached = make(place(), 10 * size)
    run_all("fork", cached, 4)
    stats = cached.stats()
    assert stats.items in (10, 11)
    assert stats.bytes <= 10 * size


def test_threads_share_a_cache(place):
    cached = make(place())
    for worker in [Worker(read_all, cached, order) for order in orders(4)]:
        worker.result()
    stats = cached.stats()
    assert (stats.items, stats.damaged) == (COUNT, 0)
    assert stats.hits + stats.misses == 4 * COUNT


def test_a_child_forked_while_a_thread_holds_the_lock_can_read(place):
    directory = place()
    cached = make(directory)
    cached[0]
    with disk.lock if directory else store_of(cached).memory.thread_lock:
        in_child(check_all, cached)
    check_all(cached)


def test_no_connection_lives_through_a_fork(tmp_path, monkeypatch):
    connections = []

    class Recorded(sqlite3.Connection):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            connections.append(self)

    connect = functools.partial(sqlite3.connect, factory=Recorded)
    monkeypatch.setattr(disk.sqlite3, "connect", connect)
    cached = make(tmp_path / "cache")
    cached[0]

    def look():
        (parents,) = connections
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            parents.execute("SELECT 1")
        check_all(cached)
        assert len(connections) == 2

    in_child(look)
    check_all(cached)
    assert (cached.stats().hits, cached.stats().damaged) == (COUNT, 0)


def test_more_processes_than_slots_are_counted(monkeypatch):
    monkeypatch.setattr("echobuf.cache.memory._SLOTS", 3)
    cached = make()
    for _ in range(5):
        in_child(check_all, cached)
    stats = cached.stats()
    assert (stats.misses, stats.hits) == (COUNT, 4 * COUNT)


class Collected:
    """The numbers of the items that a DataLoader has served, checked."""

    def __init__(self, loader):
        self.numbers = []
        for batch in loader:
            for x, y, name in zip(batch["x"], batch["y"], batch["name"], strict=True):
                number = int(y)
                got = {"x": x.numpy(), "y": number, "name": name, "raw": b""}
                check({**got, "raw": bytes([number])}, number)
                self.numbers.append(number)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_serves_each_item_once(place, workers):
    torch_data = pytest.importorskip("torch.utils.data")
    cached = make(place())
    for epoch in range(3):
        loader = torch_data.DataLoader(
            cached, batch_size=7, shuffle=True, num_workers=workers
        )
        assert sorted(Collected(loader).numbers) == list(range(COUNT))
        stats = cached.stats()
        assert (stats.misses, stats.hits) == (COUNT, epoch * COUNT)


def test_a_spawned_worker_of_a_data_loader_shares_the_cache():
    """Use one worker, once: it takes the time of importing torch."""
    torch_data = pytest.importorskip("torch.utils.data")
    cached = make()
    loader = torch_data.DataLoader(
        cached,
        batch_size=7,
        shuffle=True,
        num_workers=1,
        multiprocessing_context="spawn",
    )
    check(cached[3], 3)
    assert sorted(Collected(loader).numbers) == list(range(COUNT))
    assert (cached.stats().misses, cached.stats().hits) == (COUNT, 1)
    check_all(cached)
    assert cached.stats().hits == 1 + COUNT


def test_an_echo_loader_serves_each_item_as_often(place):
    torch_data = pytest.importorskip("torch.utils.data")
    import echobuf.torch

    cached = make(place(), prepare=lambda got: {"x": got["x"], "y": got["y"]})
    upstream = torch_data.DataLoader(cached, batch_size=8, num_workers=2, shuffle=True)
    loader = echobuf.torch.EchoLoader(upstream, window=16, factor=2)
    for epoch in range(2):
        numbers = []
        for batch in loader:
            for x, y in zip(batch["x"], batch["y"], strict=True):
                assert (x.numpy() == item(int(y))["x"]).all()
                numbers.append(int(y))
        assert sorted(numbers) == sorted([*range(COUNT)] * 2)
        assert cached.stats().hits == epoch * COUNT


def test_an_echo_loader_of_arrays_hits_the_cache(place):
    import echobuf

    cached = make(place(), transform=lambda got: (got["x"], got["y"]))
    loader = echobuf.EchoLoader(cached, batch_size=4, window=16, factor=2)
    assert len(loader) == 2 * COUNT // 4
    for epoch in range(2):
        served = [int(y) for _, numbers in loader for y in numbers]
        assert sorted(served) == sorted([*range(COUNT)] * 2)
        assert cached.stats().hits == epoch * COUNT


def test_buffered_items_are_written_within_a_second_of_reads(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    cached = make(tmp_path / "cache")
    stored = []

    def look():
        assert make(tmp_path / "cache").stats().items == stored[-1]

    for seconds, count in ((0, 0), (0.9, 0), (0.2, 2), (0, 2), (5, 3)):
        now[0] += seconds
        for number in (0, 1) if not stored else (0, 2) if count == 2 else (0,):
            check(cached[number], number)
        stored.append(count)
        in_child(look)


def test_large_buffered_items_are_written_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 100.0)  # not for their age
    source = [bytes(5 << 20), bytes(5 << 20), b""]
    cached = make(tmp_path / "cache", 10**9, source=source)
    for number, stored in ((0, 0), (1, 2), (2, 2)):
        cached[number]
        in_child(check_stored, tmp_path / "cache", source, stored)
    assert ItemEncoder(source[0]).size < 6 << 20


def check_stored(directory, source, stored):
    assert make(directory, 10**9, source=source).stats().items == stored


def test_children_forked_while_threads_read_and_write(place):
    cached = make(place())
    stopped = threading.Event()

    def work():
        while not stopped.is_set():
            check_all(cached)
            cached.flush()

    workers = [Worker(work) for _ in range(2)]
    for _ in range(10):
        in_child(check_all, cached)
    stopped.set()
    for worker in workers:
        worker.result()
    assert (cached.stats().items, cached.stats().damaged) == (COUNT, 0)
