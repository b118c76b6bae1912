"""Which arguments may differ between a state and the loader that goes on from it."""

import json

import pytest

pytest.importorskip("torch")

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler

import echobuf.torch

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

KWARGS = {"batch_size": 4, "window": 16, "factor": 2, "seed": 3, "drop_last": True}


class Squares(Dataset):
    def __len__(self):
        return 50

    def __getitem__(self, index):
        return {"id": index, "square": torch.tensor(index * index)}


def make(size=5, data_workers=0, **kwargs):
    upstream = Squares()
    if size is not None:
        upstream = DataLoader(upstream, batch_size=size, num_workers=data_workers)
    return echobuf.torch.EchoLoader(upstream, **{**KWARGS, **kwargs})


def ids(batches):
    return [batch["id"].tolist() for batch in batches]


def stopped(**kwargs):
    """A state in the middle of an epoch, and the batches that are left of it."""
    epoch = iter(loader := make(**kwargs))
    for _ in range(7):
        next(epoch)
    state = json.loads(json.dumps(loader.state_dict()))
    return state, ids(epoch)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", 8),
        ("window", 20),
        ("factor", 3),
        ("factor", "auto"),
        ("seed", 4),
        ("drop_last", False),
    ],
)
def test_what_decides_on_the_batches_must_be_the_same(name, value):
    state, _ = stopped()
    with pytest.raises(echobuf.StateError, match=f"taken with `{name}`"):
        make(**{name: value}).load_state_dict(state)


def test_max_factor_must_be_the_same_where_it_counts():
    with pytest.raises(echobuf.StateError, match="taken with `max_factor`"):
        make(factor="auto", max_factor=3).load_state_dict(
            make(factor="auto", max_factor=4).state_dict()
        )
    make(max_factor=3).load_state_dict(make(max_factor=4).state_dict())


@pytest.mark.parametrize(
    "changed",
    [
        {"size": 7},
        {"size": 1},
        {"data_workers": 2},
        {"prefetch": 3},
        {"overlap_epochs": True},
        {"max_bytes": 10**9},
        {"length": 50},
        {"size": None},  # the data set itself, without a DataLoader
        {"size": None, "sampler": range(50)},
    ],
    ids=str,
)
@pytest.mark.parametrize("back", [False, True])
def test_what_only_says_how_it_is_read_may_change(changed, back):
    check_may_change(*([{}, changed][:: -1 if back else 1]))


def test_the_number_of_worker_processes_may_change():
    check_may_change({}, {"size": None, "num_workers": 1})


def check_may_change(before, after):
    state, left = stopped(**before)
    loader = make(**after)
    loader.load_state_dict(state)
    assert ids(loader) == left == stopped()[1]


def test_a_window_left_out_is_the_one_of_its_length():
    state, left = stopped(window=None)
    loader = make(window=4 * 32)
    loader.load_state_dict(state)
    assert ids(loader) == left


@pytest.mark.parametrize("told_first", ["sampler", "loader"])
def test_an_epoch_that_a_trainer_tells_the_sampler_first_holds(told_first):
    def make():
        sampler = DistributedSampler(Squares(), num_replicas=1, rank=0, seed=1)
        upstream = DataLoader(Squares(), batch_size=5, sampler=sampler)
        return echobuf.torch.EchoLoader(upstream, **KWARGS)

    whole = make()
    whole.set_epoch(3)
    expected = ids(whole)
    again = make()
    at_start = make()
    at_start.set_epoch(3)
    again.load_state_dict(at_start.state_dict())
    epoch = iter(again)  # before the sampler is told
    if told_first == "sampler":
        again.sampler.set_epoch(3)
    again.set_epoch(3)
    assert ids(epoch) == expected
