"""Loaders and threads: several that draw, one that looks, many loaders at once."""

import itertools
import json
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import echobuf
from echobuf import transforms as T
from echobuf.resources import members
from helpers import WAIT_S, Worker, until
from test_loader import Numbers, numbers_of

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

KWARGS = {"batch_size": 4, "window": 16, "factor": 2}
THREADS = 8


def draw_all(iterator, threads):
    """Return the ids that each thread has got from one iterator, from its start on."""
    start = threading.Barrier(threads)

    def draw():
        start.wait(WAIT_S)
        return numbers_of(iterator)

    return [worker.result() for worker in [Worker(draw) for _ in range(threads)]]


@pytest.mark.parametrize("overlap", [False, True], ids=["apart", "overlap"])
@pytest.mark.parametrize("n", [0, 50])
def test_threads_that_draw_from_one_iterator_share_its_batches(overlap, n):
    with echobuf.EchoLoader(Numbers(n), overlap_epochs=overlap, **KWARGS) as loader:
        for epoch in range(4):
            got = draw_all(iter(loader), 4)
            assert sorted(itertools.chain.from_iterable(got)) == sorted([*range(n)] * 2)
            assert loader.state_dict()["position"] == "", "the epoch is over"
            assert loader.state_dict()["epoch"] == epoch + 1


def test_an_epoch_that_was_given_up_is_begun_once_for_all_threads():
    """`set_epoch` names another; the first draws of all threads begin that one."""
    with echobuf.EchoLoader(Numbers(50), **KWARGS) as loader:
        iterator = iter(loader)
        loader.set_epoch(5)
        got = draw_all(iterator, 4)
        assert sorted(itertools.chain.from_iterable(got)) == sorted([*range(50)] * 2)
        assert loader.state_dict()["epoch"] == 6


def test_other_threads_may_look_while_one_iterates():
    with echobuf.EchoLoader(Numbers(120), length=120, **KWARGS) as loader:
        over = threading.Event()

        def look():
            looks, served = 0, 0
            while not over.is_set() or looks == 0:
                stats = loader.stats()
                assert stats.fresh >= 0
                served = max(served, stats.served)
                json.dumps(loader.state_dict())
                assert len(loader) == 60
                assert "EchoLoader" in repr(loader)
                looks += 1
            return served

        looking = [Worker(look) for _ in range(3)]
        got = numbers_of(loader)
        over.set()
        assert sorted(got) == sorted([*range(120)] * 2)
        assert all(worker.result() <= 240 for worker in looking)


def test_a_loader_that_is_closed_ends_the_draws_of_all_threads():
    gate = threading.Event()

    class Endless:
        def __iter__(self):
            yield from Numbers(40)
            gate.wait(WAIT_S)

    loader = echobuf.EchoLoader(Endless(), **KWARGS)
    iterator = iter(loader)

    def draw():
        with pytest.raises(echobuf.ClosedError, match="loader was closed"):
            numbers_of(iterator)

    drawing = [Worker(draw) for _ in range(4)]
    until(lambda: loader.stats().served >= 24)
    closing = Worker(loader.close)
    for worker in drawing:
        worker.result()
    gate.set()
    closing.result()


def test_loaders_made_at_once_are_as_those_made_alone():
    """Feeders, chains and lazy imports share nothing that a thread sees half-made."""

    def epochs(seed):
        images = [(np.full((8, 8, 3), i, np.uint8), i) for i in range(24)]
        chain = [T.RandomCrop(6), T.RandomHorizontalFlip(), T.ColorJitter(0.4)]
        with echobuf.EchoLoader(
            images, seed=seed, transform={0: chain}, **KWARGS
        ) as loader:
            return [
                (batch[0].tobytes(), batch[1].tolist())
                for _ in range(2)
                for batch in loader
            ]

    alone = [epochs(seed) for seed in range(THREADS)]
    assert len({str(each) for each in alone}) == THREADS
    threads = [Worker(epochs, seed) for seed in range(THREADS)]
    assert [thread.result() for thread in threads] == alone


LAZY = """
import threading
import weakref
import echobuf

start, found = threading.Barrier(8), []

def look():
    start.wait()
    names = ("EchoLoader", "analyze", "metrics", "transforms")
    found.append(tuple(getattr(echobuf, name) for name in names))

threads = [threading.Thread(target=look) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(found) == 8 and len(set(found)) == 1, found
"""


def test_names_that_are_imported_late_are_the_same_for_all_threads():
    subprocess.run([sys.executable, "-c", LAZY], check=True, timeout=WAIT_S)


def test_a_weak_set_is_listed_while_other_threads_add_to_it():
    class Member:
        pass

    weak, kept = weakref.WeakSet(), [Member() for _ in range(5000)]
    start = threading.Barrier(2)

    def add():
        start.wait(WAIT_S)
        for each in kept:
            weak.add(each)

    adding = Worker(add)
    start.wait(WAIT_S)
    while adding.is_alive():
        assert len(members(weak)) <= len(kept)
    adding.result()
    assert set(members(weak)) == set(kept)
