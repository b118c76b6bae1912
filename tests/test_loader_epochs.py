"""Epochs of `EchoLoader`: their order, number, length and state."""

import random

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
)

import echobuf
from test_loader import KWARGS, Numbers, no_feeder


@pytest.fixture(autouse=True)
def _no_leaked_threads():
    yield
    no_feeder()


def make(n=40, **kwargs):
    return echobuf.EchoLoader(Numbers(n), **{**KWARGS, **kwargs})


def ids(batches):
    return [batch["id"].tolist() for batch in batches]


# ---- epochs


def test_epochs_differ_in_order_and_are_the_same_again():
    loader, again = make(), make()
    epochs = [ids(loader) for _ in range(3)]
    assert epochs == [ids(again) for _ in range(3)]
    assert len({str(epoch) for epoch in epochs}) == 3
    assert ids(make(seed=1)) != epochs[0]


def test_set_epoch_fixes_the_order():
    loader = make()
    epochs = [ids(loader) for _ in range(3)]
    for number in (1, 0, 2, 0):
        loader.set_epoch(number)
        assert ids(loader) == epochs[number]
    loader.set_epoch(0)
    assert [ids(loader) for _ in range(3)] == epochs
    for bad in (-1, 1.5, None):
        with pytest.raises(echobuf.OptionError, match="`epoch`"):
            loader.set_epoch(bad)


def test_an_epoch_left_half_way_changes_nothing_about_the_next():
    loader, whole = make(prefetch=2), make()
    expected = [ids(whole) for _ in range(4)]
    for _ in zip(range(3), loader, strict=False):
        pass
    assert ids(loader) == expected[1]
    next(iter(loader))
    assert ids(loader) == expected[3]


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("draws", [0, 1, 5])
def test_beginning_another_epoch_ends_the_one_before(draws, keep):
    loader, whole = make(), make()
    expected = [ids(whole) for _ in range(4)]
    epoch = iter(loader)
    for number in range(3):
        for _ in range(draws):
            next(epoch)
        before = epoch
        epoch = iter(loader)
        assert ids([next(epoch)]) == expected[number + 1][:1]
        with pytest.raises(echobuf.ClosedError, match="another epoch"):
            next(before)
        if not keep:
            del before  # now, in the middle of the next
    assert ids(epoch) == expected[3][1:]


def test_an_epoch_that_failed_may_be_dropped_in_the_middle_of_the_next():
    loader, whole = make(), make()
    expected = [ids(whole) for _ in range(2)]
    loader._upstream.iterable.fail_at = 30
    failed = iter(loader)
    with pytest.raises(echobuf.UpstreamError):
        list(failed)
    loader._upstream.iterable.fail_at = None
    epoch = iter(loader)
    got = ids([next(epoch)])
    del failed
    assert got + ids(epoch) == expected[1]


def test_memory_is_allocated_once():
    loader = make(n=200)
    sizes = []
    for _ in range(5):
        for _ in loader:
            pass
        sizes.append(loader.stats().bytes_host)
    assert len(set(sizes)) == 1


# ---- random numbers, threads


class Shuffled(Numbers):
    """Uses every generator where upstreams do: in `iter`, and in the first `next`."""

    def __iter__(self):
        start = torch.rand(()).item() + np.random.rand() + random.random()
        return self.examples(start)

    def examples(self, start):
        start += torch.rand(()).item() + np.random.rand() + random.random()
        yield {"id": start}
        for _ in range(20):
            yield {"id": start}


def states():
    numpy_state = np.random.get_state()[1].tolist(), np.random.get_state()[2]
    return torch.get_rng_state().tolist(), numpy_state, random.getstate()


@pytest.mark.parametrize("upstream", ["own", "loader", "workers"])
def test_random_numbers_are_used_as_without_echobuf(upstream):
    dataset = [{"id": float(number)} for number in range(24)]
    source = {
        "own": lambda: Shuffled(0),
        "loader": lambda: DataLoader(dataset, shuffle=True, batch_size=None),
        "workers": lambda: DataLoader(
            dataset, shuffle=True, num_workers=1, batch_size=None
        ),
    }[upstream]()
    kwargs = {"batch_size": 1, "window": 4, "factor": 1}
    loader = echobuf.EchoLoader(source, **kwargs)
    after, firsts = [], []
    for begin in (lambda: next(iter(source)), lambda: iter(loader)):
        for seed in (random.seed, np.random.seed, torch.manual_seed):
            seed(3)
        held = begin()
        firsts.append(held["id"] if isinstance(held, dict) else next(held)["id"])
        after.append(states())
        del held
    assert after[0] == after[1]
    if upstream == "own":
        assert float(firsts[0]) == float(firsts[1][0])


def test_iter_and_the_first_item_are_on_the_callers_thread_alone():
    loader = make()
    list(loader)
    names = [thread.name for thread in loader._upstream.iterable.threads]
    assert [name == "MainThread" for name in names[:3]] == [True, True, False]


# ---- length


class Stream(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        yield from range(first, self.n, step)


class Sized(Stream):
    def __len__(self):
        return self.n


class Odd(Sampler):
    def __iter__(self):
        return iter([[0, 1, 2], [3], [4, 5]])

    def __len__(self):
        return 3


DATA = range(33)
LOADERS = {
    "plain": lambda: DataLoader(DATA, batch_size=5),
    "drop_last": lambda: DataLoader(DATA, batch_size=5, drop_last=True),
    "shuffle": lambda: DataLoader(DATA, batch_size=5, shuffle=True),
    "subset": lambda: DataLoader(
        DATA, batch_size=4, sampler=SubsetRandomSampler(range(10))
    ),
    "more": lambda: DataLoader(
        DATA, batch_size=4, sampler=RandomSampler(DATA, True, num_samples=50)
    ),
    "batch_sampler": lambda: DataLoader(
        DATA, batch_sampler=BatchSampler(range(21), 4, drop_last=True)
    ),
    "sized stream": lambda: DataLoader(Sized(33), batch_size=5),
    "workers": lambda: DataLoader(DATA, batch_size=5, num_workers=2),
}


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("factor", [1, 2, 2.5, 3.3])
@pytest.mark.parametrize("kind", LOADERS)
def test_the_length_of_a_data_loader_is_exact(kind, factor, drop_last):
    kwargs = {"window": 24, "factor": factor, "drop_last": drop_last, "batched": True}
    loader = echobuf.EchoLoader(LOADERS[kind](), **kwargs)
    assert len(loader) == len(list(loader))
    whole = {"window": 4, "factor": factor, "unit": "batch"}
    loader = echobuf.EchoLoader(LOADERS[kind](), **whole)
    assert len(loader) == len(list(loader))


UNKNOWN = {
    "auto": lambda: make(factor="auto"),
    "generator": lambda: echobuf.EchoLoader((x for x in ()), **KWARGS),
    "no len": make,
    "batches": lambda: echobuf.EchoLoader([np.arange(3)], batched=True, **KWARGS),
    "stream": lambda: echobuf.EchoLoader(
        DataLoader(Stream(9), batch_size=2), batched=True, **KWARGS
    ),
    "odd": lambda: echobuf.EchoLoader(
        DataLoader(DATA, batch_sampler=Odd()), batched=True, **KWARGS
    ),
    "stream workers": lambda: echobuf.EchoLoader(
        DataLoader(Sized(9), batch_size=2, num_workers=2), batched=True, **KWARGS
    ),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_an_unknown_length_is_a_type_error(kind):
    with pytest.raises(TypeError):
        len(UNKNOWN[kind]())


@pytest.mark.parametrize("factor", [2, 2.5])
def test_a_length_that_is_given_is_believed(factor):
    loader = make(n=33, factor=factor, length=33)
    assert len(loader) == len(list(loader))


class _Stored:
    """Gives the same iterator at every `iter`, as some wrappers do."""

    def __init__(self):
        self._items = (np.int64(i) for i in range(8))

    def __iter__(self):
        return self._items


def test_a_stored_iterator_is_no_second_epoch():
    loader = echobuf.EchoLoader(_Stored(), batch_size=4, window=8, factor=1)
    assert len(list(loader)) == 2
    with pytest.raises(echobuf.UpstreamError, match="gives one epoch only"):
        iter(loader)
