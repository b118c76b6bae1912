"""Batches that are not what their DataLoader says, and lengths that are not true."""

import contextlib
import warnings

import pytest

pytest.importorskip("torch")

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    default_collate,
)
from torch.utils.data.distributed import DistributedSampler

import echobuf
import echobuf.torch

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

N, SIZE = 48, 4


class Numbers(Dataset):
    def __len__(self):
        return N

    def __getitem__(self, index):
        return torch.as_tensor(index, dtype=torch.float32)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(N, dtype=torch.float32))


def as_it_is(items):
    return default_collate(items)


def crops(items):
    return torch.stack([item for item in items for _ in range(3)])


def pairs(items):
    return torch.stack(items).reshape(-1, 2)


def sound(items):
    return torch.stack([item for item in items if item])


def time_major(items):
    return torch.stack([item.repeat(10) for item in items], dim=1)


def echo(upstream, **kwargs):
    return echobuf.torch.EchoLoader(upstream, **{"window": 48, "factor": 2, **kwargs})


OTHERS = {
    "more": (crops, 12, 12),
    "fewer": (pairs, 2, 2),
    "one left out": (sound, 3, SIZE),
    "time-major": (time_major, 10, 10),
}


def asked(loader, ask):
    """The batches of an epoch, after a question that may have no answer."""
    with contextlib.suppress(TypeError):
        ask(loader)
    return list(loader)


@pytest.mark.parametrize("ask", [len, lambda it: it.max_batches(), bool, iter])
@pytest.mark.parametrize("kind", OTHERS)
def test_another_number_of_examples_than_indices(kind, ask):
    collate, made, size = OTHERS[kind]
    loader = echo(DataLoader(Numbers(), SIZE, collate_fn=collate))
    said = f"has {made} examples on axis 0, and is made of {SIZE} items"
    with pytest.warns(UserWarning, match=said):
        batches = asked(loader, ask)
    with pytest.raises(TypeError, match=said):
        len(loader)
    with pytest.raises(TypeError, match="give `length=`"):
        echobuf.schedule_steps(loader, 3)
    assert loader.batch_size == size
    assert {len(batch) for batch in batches[:-1]} == {size}
    assert loader.stats().served == 2 * loader.stats().fresh
    list(loader)  # and no second warning


def test_a_given_size_and_length_are_taken_without_a_word():
    upstream = DataLoader(Numbers(), SIZE, collate_fn=crops)
    loader = echo(upstream, batch_size=6, length=3 * N)
    assert len(loader) == 48
    assert [len(batch) for batch in loader] == 48 * [6]


@pytest.mark.parametrize("ask", [len, lambda loader: loader.max_batches()])
@pytest.mark.parametrize(("collate", "each"), [(crops, 3), (pairs, 0.5)])
def test_a_given_length_is_one_of_batches_of_their_own_size(collate, each, ask):
    loader = echo(DataLoader(Numbers(), SIZE, collate_fn=collate), length=int(each * N))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the size
        said = ask(loader)
    assert said == len(list(loader))


@pytest.mark.parametrize("ask", [len, lambda loader: loader.max_batches()])
def test_a_look_at_the_first_batch_uses_up_nothing(ask):
    torch.manual_seed(7)
    wanted = list(echo(DataLoader(Numbers(), SIZE, shuffle=True)))
    torch.manual_seed(7)
    loader = echo(DataLoader(Numbers(), SIZE, shuffle=True, collate_fn=as_it_is))
    assert loader
    assert ask(loader) == len(wanted)
    assert torch.equal(torch.cat(list(loader)), torch.cat(wanted))
    assert loader.state_dict()["epoch"] == 1


def test_states_of_batches_whose_size_is_known_with_the_first():
    def make():
        return echo(DataLoader(Numbers(), SIZE, collate_fn=crops), window=None)

    first, second = make(), make()
    with pytest.warns(UserWarning, match="`batch_size` is now 12"):
        batches = iter(first)
    next(batches)
    second.load_state_dict(first.state_dict())
    with pytest.warns(UserWarning, match="`batch_size` is now 12"):
        rest = list(second)
    assert torch.equal(torch.cat(rest), torch.cat(list(batches)))


def test_a_short_dataset_and_a_stream_are_no_other_number():
    for data in (Numbers(), Stream()):
        loader = echo(DataLoader(data, 50, collate_fn=as_it_is), window=100)
        assert len(list(loader)) == 2
    with pytest.warns(UserWarning, match="has 12 examples"):
        list(echo(DataLoader(Stream(), SIZE, collate_fn=crops)))


class Batches(Dataset):
    """Takes the indices of a batch, as scvi-tools' and Hugging Face's do."""

    def __getitem__(self, indices):
        return torch.tensor(indices, dtype=torch.float32)


@pytest.mark.parametrize("drop_last", [False, True])
def test_a_sampler_that_makes_batches(drop_last):
    sampler = BatchSampler(SequentialSampler(range(36)), 20, drop_last)
    loader = echo(DataLoader(Batches(), sampler=sampler, batch_size=None), window=40)
    assert loader.batch_size == 20
    assert len(loader) == (2 if drop_last else 4)
    assert [len(batch) for batch in loader] == (
        [20] * 2 if drop_last else [20] * 3 + [12]
    )


class Says:
    def __init__(self, n, says):
        self.n = n
        self.says = says

    def __iter__(self):
        return iter(range(self.n))

    def __len__(self):
        if isinstance(self.says, int):
            return self.says
        raise self.says


@pytest.mark.parametrize(
    "error", [RuntimeError, AttributeError, NotImplementedError, KeyError]
)
def test_a_length_that_raises(error):
    loader = echobuf.EchoLoader(Says(10, error), batch_size=2, factor=1)
    assert loader
    assert len(list(loader)) == 5
    with pytest.raises(TypeError, match="give `length=`"):
        len(loader)
    with pytest.raises(TypeError, match="give `length=`"):
        loader.max_batches()


@pytest.mark.parametrize(("made", "said"), [(10, 12), (12, 10)])
@pytest.mark.parametrize("factor", [1, "auto"])
@pytest.mark.parametrize("given", [False, True])
def test_a_length_that_an_epoch_contradicts(made, said, factor, given):
    upstream = iter_only(made) if given else Says(made, said)
    length = said if given else None
    loader = echobuf.EchoLoader(upstream, batch_size=2, factor=factor, length=length)
    name = "`length`" if given else r"`len\(upstream\)`"
    with pytest.warns(UserWarning, match=f"by {name} an epoch has {said}.*had {made}"):
        list(loader)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(loader)  # once


def iter_only(n):
    class Items:
        def __iter__(self):
            return iter(range(n))

    return Items()


def test_the_epoch_reaches_the_sampler_within_a_sampler_of_batches():
    sampler = DistributedSampler(Numbers(), num_replicas=1, rank=0)
    batches = BatchSampler(sampler, SIZE, drop_last=False)
    loader = echo(DataLoader(Numbers(), sampler=batches, batch_size=None), factor=1)
    loader.set_epoch(3)
    assert sampler.epoch == 3


@pytest.mark.filterwarnings("ignore:.*set_vital:UserWarning")
def test_an_epoch_that_goes_on_at_its_last_batch():
    """That batch is short, and no sign of another size."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def make():
        upstream = stateful.StatefulDataLoader(Numbers(), N - 1)
        return echo(upstream, window=N - 1, factor=1)

    first, second = make(), make()
    next(iter(first))
    second.load_state_dict(first.state_dict())
    assert len(list(second)) == 1
    assert len(second) == 2


def as_columns(items):
    return tuple(zip(*items, strict=True))


class Pairs(Dataset):
    def __len__(self):
        return N

    def __getitem__(self, index):
        return torch.full((2,), float(index)), torch.tensor(index)


@pytest.mark.parametrize("unit", ["example", "batch"])
@pytest.mark.parametrize(
    ("data", "collate", "name"),
    [
        (Numbers(), list, "batch"),
        (torch.zeros(N, SIZE), list, "batch"),  # square
        (torch.zeros(N, SIZE), tuple, "batch"),
        (torch.zeros(N, SIZE + 1), lambda items: items, "batch"),
        (Pairs(), list, "batch"),
        (Pairs(), as_columns, r"batch\[0\]"),
    ],
)
def test_examples_that_are_not_stacked_are_no_batch(data, collate, name, unit):
    upstream = DataLoader(data, SIZE, collate_fn=collate)
    with pytest.raises(echobuf.SpecError, match=f"`{name}` is a (list|tuple) of 4 exa"):
        list(echo(upstream, unit=unit))


def test_leaves_of_a_batch_that_are_as_many_as_its_examples():
    def leaves(items):
        return [torch.stack(items)] * SIZE

    def crops_of(items):
        return [crops(items)] * SIZE

    for collate in (None, leaves):
        batch = next(iter(echo(DataLoader(Numbers(), SIZE, collate_fn=collate))))
        assert len(batch) == SIZE
    upstream = DataLoader(Numbers(), SIZE, collate_fn=crops_of)
    assert len(list(echo(upstream, batch_size=12, length=3 * N))) == 24


@pytest.mark.filterwarnings("ignore:.*set_vital:UserWarning")
@pytest.mark.parametrize(
    ("collate", "size"), [(as_it_is, 10), (crops, 30), (pairs, 10)]
)
def test_an_epoch_that_goes_on_at_its_end_with_a_collate_fn(collate, size):
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def make():
        upstream = stateful.StatefulDataLoader(Numbers(), 10, collate_fn=collate)
        return echo(upstream, window=size, factor=1)

    first, second = make(), make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the size
        batches = list(first)
    cut = len(batches) - 1
    with warnings.catch_warnings():
        warnings.simplefilter("error" if collate is as_it_is else "ignore")
        warnings.filterwarnings("ignore", ".*set_vital")
        third = make()
        it = iter(third)
        for _ in range(cut):
            next(it)
        second.load_state_dict(third.state_dict())
        rest = list(second)
    assert [batch.tolist() for batch in rest] == [
        batch.tolist() for batch in batches[cut:]
    ]
    assert second.batch_size == first.batch_size
    if collate is as_it_is:
        assert len(second) == len(first) == len(batches)
    else:
        with pytest.raises(TypeError, match="give `length=`"):
            len(second)
