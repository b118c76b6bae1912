"""Renewed items in memory: no two in the same bytes, whoever is killed."""

import multiprocessing
import os
import random
import signal
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf.cache
from cache_data import size_of, store_of
from helpers import Worker
from renewed_data import Renewed, make, read_epoch
from test_cache_damage import killed_at


def check_places(cached):
    """Check that items lie apart, and in the memory; return their bytes."""
    begins, sizes = store_of(cached)._taken()  # noqa: SLF001 - what it is about
    order = np.argsort(begins)
    ends = (begins + sizes)[order]
    assert np.all(ends[:-1] <= begins[order][1:])
    stats = cached.stats()
    assert (stats.items, stats.bytes) == (len(sizes), sizes.sum())
    assert stats.bytes <= stats.max_bytes
    return stats.bytes


@given(st.integers(0, 2**32), st.integers(1, 3), st.floats(0.1, 1.5))
@settings(max_examples=30, deadline=None)
def test_items_of_any_sizes_lie_apart_within_the_limit(seed, renew, share):
    chance = np.random.default_rng(seed)
    sizes = chance.integers(0, 2000, (20, 12))
    most = int(share * sum(size_of(bytes(int(each))) for each in sizes[0]))

    def prepare(index):
        return bytes([index]) * sizes[echobuf.cache.get_renewal().generation, index]

    cached = make(None, renew, source=range(12), prepare=prepare, max_bytes=most)
    for epoch in range(12):
        cached.set_epoch(epoch)
        for index in chance.permutation(12).tolist():
            generation = (epoch + index % renew) // renew
            assert cached[index] == bytes([index]) * sizes[generation, index]
        check_places(cached)
    assert cached.stats().damaged == 0


def test_items_of_one_size_are_all_kept_for_ever():
    cached = make(
        None,
        4,
        source=range(40),
        prepare=lambda index: bytes([index]) * 500,
        max_bytes=40 * size_of(bytes(500)),
    )
    for epoch in range(20):
        cached.set_epoch(epoch)
        [cached[index] for index in range(40)]
        assert cached.stats().misses == 40 + 10 * epoch
    assert check_places(cached) == cached.stats().max_bytes


def test_a_process_that_is_killed_anywhere_leaves_nothing_torn():
    line = 0
    while True:
        cached = make(None)
        read_epoch(cached, 0)

        def work(cached=cached):
            cached.set_epoch(3)
            cached[1]

        was_killed = killed_at(line, work)
        check_places(cached)
        for epoch in (3, 4):
            read_epoch(cached, epoch)
        assert cached.stats().damaged == 0
        if not was_killed:
            break
        line += 7
    assert line > 30


def test_workers_that_are_killed_at_any_time_leave_nothing_torn():
    cached = make(None, max_bytes=4000)
    chance = random.Random(3)

    def work():
        while True:
            for epoch in range(6):
                read_epoch(cached, epoch)

    for _ in range(10):
        children = [
            multiprocessing.get_context("fork").Process(target=work) for _ in range(2)
        ]
        for child in children:
            child.start()
        time.sleep(chance.uniform(0.02, 0.1))
        for child in children:
            os.kill(child.pid, signal.SIGKILL)
            child.join()
        check_places(cached)
        for epoch in range(3):
            read_epoch(cached, epoch)
    assert cached.stats().damaged == 0


@pytest.mark.parametrize("epochs", [(0, 0), (3, 4), (2, 9)])
def test_processes_and_threads_share_it(epochs):
    cached = make(None, max_bytes=3000)

    def use(epoch):
        def read():
            for _ in range(4):
                read_epoch(cached, epoch)
                assert cached.stats().bytes <= 3000

        cached.set_epoch(epoch)
        for worker in [Worker(read) for _ in range(3)]:
            worker.result()

    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=use, args=(epoch,)) for epoch in epochs * 2]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    assert cached.stats().damaged == 0
    assert 0 < check_places(cached) <= 3000


def test_a_damaged_item_or_entry_costs_no_more_than_to_make_it_again():
    chance = random.Random(5)
    for _ in range(60):
        cached = make(None, 2, source=(source := Renewed()), max_bytes=6000)
        read_epoch(cached, 0, 2)
        memory = store_of(cached).memory.view
        for _ in range(3):
            at = chance.randrange(len(memory) // 2)
            memory[at] = chance.randrange(256)
        source.made.clear()
        for epoch in range(4):
            read_epoch(cached, epoch, 2)
        assert len(source.made) < 4 * 12
        assert cached.stats().bytes <= 6000
