"""`close()` and `with` of the loaders, and what cannot be copied."""

import copy
import os
import pickle
import threading
import weakref

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("jax")
pytest.importorskip("accelerate")

from torch.utils.data import DataLoader, Dataset

import echobuf
import echobuf.accelerate
import echobuf.jax
import echobuf.torch
from echobuf.loader.loader import internals_of
from helpers import WAIT_S, Worker, until
from leaked_threads import no_feeder
from test_loader import Numbers

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

KWARGS = {"batch_size": 4, "window": 16, "factor": 2}
LOADERS = {
    "numpy": echobuf.EchoLoader,
    "torch": echobuf.torch.EchoLoader,
    "jax": echobuf.jax.EchoLoader,
    "accelerate": echobuf.accelerate.EchoLoader,
}
every_loader = pytest.mark.parametrize("make", LOADERS.values(), ids=LOADERS)

USES = {
    "iter": iter,
    "len": len,
    "max_batches": lambda loader: loader.max_batches(),
    "set_epoch": lambda loader: loader.set_epoch(1),
    "stats": lambda loader: loader.stats(),
    "state_dict": lambda loader: loader.state_dict(),
    "load_state_dict": lambda loader: loader.load_state_dict({}),
    "dataset": lambda loader: loader.dataset,
    "batch_size": lambda loader: loader.batch_size,
    "with": lambda loader: loader.__enter__(),
}


def is_closed(loader):
    for use in USES.values():
        with pytest.raises(echobuf.ClosedError, match="this loader was closed"):
            use(loader)
    assert bool(loader)
    assert repr(loader).endswith("(closed)")
    loader.close()
    return True


@every_loader
@pytest.mark.parametrize("drawn", [None, 0, 2, 100])
def test_any_later_use_is_refused(make, drawn):
    loader = make(Numbers(60), length=60, **KWARGS)
    if drawn is not None:
        for _ in zip(range(drawn), loader, strict=False):
            pass
    loader.close()
    assert is_closed(loader)


@every_loader
def test_an_iterator_that_is_held_raises(make):
    with make(Numbers(60), **KWARGS) as loader:
        epoch = iter(loader)
        next(epoch)
    for _ in range(2):
        with pytest.raises(echobuf.ClosedError, match="this loader was closed"):
            next(epoch)
        epoch = iter(epoch) if make is not LOADERS["accelerate"] else epoch
    assert is_closed(loader)


def test_one_that_was_superseded_before_says_the_same():
    loader = echobuf.EchoLoader(Numbers(60), **KWARGS)
    first, second = iter(loader), iter(loader)
    loader.close()
    for epoch in (first, second):
        with pytest.raises(echobuf.ClosedError):
            next(epoch)


@pytest.mark.parametrize("wait", [True, False])
def test_it_ends_upstream_and_lets_go_of_it(wait):
    ended = threading.Event()

    class Endless:
        def __iter__(self):
            try:
                while True:
                    yield np.zeros(3)
            finally:
                ended.set()

    upstream = Endless()
    gone = weakref.ref(upstream)
    loader = echobuf.EchoLoader(upstream, overlap_epochs=True, **KWARGS)
    del upstream
    epoch = iter(loader)
    if wait:
        next(epoch)
    loader.close()
    assert ended.is_set()
    no_feeder()
    assert gone() is None
    del epoch


def test_it_ends_what_was_begun_ahead():
    upstream = Numbers(20)
    loader = echobuf.EchoLoader(upstream, overlap_epochs=True, **KWARGS)
    for _ in loader:
        pass
    loader.close()
    no_feeder()


def test_a_draw_that_waits_in_another_thread_ends():
    go_on, waits = threading.Event(), threading.Event()

    class Stuck:
        def __iter__(self):
            yield np.zeros(2)
            waits.set()
            assert go_on.wait(WAIT_S)

    loader = echobuf.EchoLoader(Stuck(), **KWARGS)
    epoch = iter(loader)
    worker = Worker(next, epoch)
    assert waits.wait(WAIT_S)
    closing = Worker(loader.close)
    with pytest.raises(echobuf.ClosedError):
        worker.result()
    go_on.set()
    closing.result()
    assert is_closed(loader)


class WithPid(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        return {"id": index, "pid": os.getpid()}


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_of_a_data_loader_end_with_it(persistent):
    def make():
        return DataLoader(WithPid(), 5, num_workers=1, persistent_workers=persistent)

    with echobuf.torch.EchoLoader(make(), window=20, factor=2) as loader:
        pids = {int(pid) for pid in next(iter(loader))["pid"]}
    until(lambda: all(map(is_gone, pids)))


def test_memory_is_released():
    loader = echobuf.EchoLoader([np.zeros(1000)] * 20, **KWARGS)
    epoch = iter(loader)
    batch = next(epoch)
    buffer = internals_of(loader).starter.buffer
    assert buffer.stats().bytes_host > 16 * 8000
    loader.close()
    assert batch.shape == (4, 1000)  # the caller's still
    with pytest.raises(echobuf.ClosedError):
        buffer.stats()


def test_an_exception_in_the_block_goes_on():
    loader = echobuf.EchoLoader(Numbers(60), **KWARGS)

    def leave():
        with loader:
            next(iter(loader))
            raise KeyError

    with pytest.raises(KeyError):
        leave()
    assert is_closed(loader)


def test_upstream_may_close_the_loader_it_feeds():
    def upstream():
        yield from range(10)
        loader.close()
        yield from range(100)

    loader = echobuf.EchoLoader(upstream(), **KWARGS)
    with pytest.raises(echobuf.ClosedError, match="this loader was closed"):
        list(loader)
    assert is_closed(loader)


# ---- copies

COPIES = [copy.copy, copy.deepcopy, pickle.dumps]


@every_loader
@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("state", ["fresh", "run", "closed"])
def test_loaders_and_iterators_cannot_be_copied(make, how, state):
    loader = make(Numbers(60), **KWARGS)
    things = [(loader, "an EchoLoader")]
    if state == "run":
        epoch = iter(loader)
        next(epoch)
        things.append((epoch, "an iterator of an EchoLoader"))
    if state == "closed":
        loader.close()
    for thing, name in things:
        with pytest.raises(TypeError, match=f"^{name} cannot be copied or pickled"):
            how(thing)
        with pytest.raises(TypeError, match=r"`state_dict\(\)`"):
            how({"a": thing})["a"] if how is not copy.copy else how(thing)
