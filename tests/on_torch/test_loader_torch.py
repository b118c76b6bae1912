"""`EchoLoader` around DataLoaders: random numbers and length."""

import random

import numpy as np
import pytest

pytest.importorskip("torch")

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
from test_loader import KWARGS, Numbers

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("no_leaked_threads")]


# ---- random numbers


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
