"""`max_bytes` holds at every moment, with several threads and stores."""

import itertools
import threading

import pytest

from cache_data import make, size_of, store_of
from echobuf.cache.items import ItemEncoder
from helpers import Worker

SOURCE = [bytes([number]) * 3000 for number in range(120)]
SIZE = size_of(SOURCE[0])


@pytest.mark.parametrize("fit", [1, 7])
def test_threads_that_miss_together_do_not_keep_more_than_fits(place, fit):
    threads = 6
    most = fit * SIZE + SIZE // 2
    cached = make(place(), most, source=SOURCE)
    seen = []
    store, together = store_of(cached), threading.Barrier(threads)
    free_bytes = store.free_bytes
    calls = itertools.count()

    def free_for_all():  # all threads have read it before any of them adds
        size = free_bytes()
        if next(calls) < threads:
            together.wait(60)
        return size

    store.free_bytes = free_for_all

    def read(begin):
        for number in range(begin, len(SOURCE), threads):
            assert cached[number] == SOURCE[number]
            seen.append(cached.stats().bytes)

    for worker in [Worker(read, begin) for begin in range(threads)]:
        worker.result()
    assert max(seen) <= most
    cached.flush()
    assert (cached.stats().items, cached.stats().bytes) == (fit, fit * SIZE)


def test_two_stores_of_a_directory_keep_to_the_bound_together(tmp_path):
    most = 10 * SIZE
    one, two = (make(tmp_path, most, source=SOURCE) for _ in range(2))
    for number in range(6):
        one[number]
        two[60 + number]
    assert (one.stats().items, one.stats().bytes) == (6, 6 * SIZE)
    assert two.stats().bytes == most  # four of its own fit
    one[6]
    assert one.stats().bytes == most
    assert one.stats().items == two.stats().items == 10


def test_a_damaged_item_of_a_full_cache_is_stored_anew(tmp_path):
    cached = make(tmp_path, 3 * SIZE, source=SOURCE)
    store = store_of(cached)
    for number in range(3):
        cached[number]
    cached.flush()
    usage = store.usage()
    store.put(1, ItemEncoder(SOURCE[1]))  # as after a damaged item
    assert store.usage() == usage
    store.put(1, ItemEncoder(SOURCE[1] * 2))  # a longer one does not fit in its place
    cached.flush()
    assert store.usage() == usage
    assert [cached[number] for number in range(3)] == SOURCE[:3]


def test_the_bound_holds_while_threads_read_and_write(tmp_path):
    most = 20 * SIZE
    caches = [make(tmp_path, most, source=SOURCE) for _ in range(3)]
    over = []
    ended = threading.Event()

    def watch():
        while not ended.is_set():
            over.extend(used for each in caches if (used := each.stats().bytes) > most)

    watcher = Worker(watch)

    def read(cached, begin):
        for number in range(begin, len(SOURCE), 3):
            assert cached[number] == SOURCE[number]
            if number % 5 == 0:
                cached.flush()

    try:
        for worker in [Worker(read, each, at) for at, each in enumerate(caches)]:
            worker.result()
    finally:
        ended.set()
        watcher.result()
    assert not over
