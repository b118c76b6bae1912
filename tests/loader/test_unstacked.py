"""A DataLoader's examples are put without its batches: what comes is the same."""

from collections import namedtuple

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate
from torch.utils.data._utils import collate

import echobuf
import echobuf.torch
from echobuf.loader import feeder, unstacked

pytestmark = pytest.mark.host


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch):
    """Three of the images below, or an example of more, are made at a time."""
    monkeypatch.setattr(unstacked, "_TOGETHER", 3 * 56)


Pair = namedtuple("Pair", ["x", "y"])
COUNT, SIZE = 83, 8


def image(i):
    return torch.arange(12, dtype=torch.float32).reshape(3, 4) + i


class Examples(Dataset):
    def __init__(self, make):
        self.make = make

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return self.make(index)


class Stream(IterableDataset):
    def __init__(self, make):
        self.make = make

    def __iter__(self):
        return map(self.make, range(COUNT))


KINDS = {
    "tensor": image,
    "pair": lambda i: (image(i), i),
    "list": lambda i: [image(i), i],
    "dict": lambda i: {"y": float(i), "x": image(i)},
    "named": lambda i: Pair(image(i), i % 2 == 0),
    "nested": lambda i: (image(i), {"a": i, "b": (i, np.float32(i))}),
    "arrays": lambda i: (np.full((3, 5), i, np.uint8), np.int64(i)),
    "short numbers": lambda i: (np.full((3, 5), i, np.uint8), np.int16(i)),
    "strided": lambda i: (image(i).T, np.arange(8.0)[::2] + i),
    "gradients": lambda i: (image(i).requires_grad_(), i),
    "empty": lambda i: (torch.zeros(0), i),
    "complex": lambda i: (torch.complex(image(i), image(i)).conj(), i),
    "lost keys": lambda i: {"y": i, **({"z": 1} if i % 8 == 4 else {})},
}


def drawn(make, dataset=Examples, **kwargs):
    """The batches of two epochs."""
    options = {"batch_size": SIZE, **kwargs}
    upstream = DataLoader(dataset(make), **options)
    loader = echobuf.torch.EchoLoader(upstream, window=24, factor=2, seed=1)
    with loader:
        return [batch for _ in range(2) for batch in loader]


def stacked(monkeypatch, *args, **kwargs):
    """The same where the DataLoader stacks all batches."""
    with monkeypatch.context() as patch:
        patch.setattr(feeder, "unstack", lambda items, first: None)
        return drawn(*args, **kwargs)


def note_fallbacks(monkeypatch):
    """Return a list of the batches, by number, that were stacked after all."""
    found = []
    stack = unstacked.Unstacked.stack

    def noting(self):
        found.append(self.count)
        return stack(self)

    monkeypatch.setattr(unstacked.Unstacked, "stack", noting)
    return found


def assert_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert type(one) is type(other)
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("dataset", [Examples, Stream])
@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_those_of_stacked_ones(monkeypatch, kind, dataset):
    make = KINDS[kind]
    assert_same(drawn(make, dataset), stacked(monkeypatch, make, dataset))


@pytest.mark.parametrize("kind", ["tensor", "pair", "list", "dict", "named", "arrays"])
def test_common_examples_are_never_stacked(monkeypatch, kind):
    """But for the first batch, which says what examples are like."""
    calls = []

    def stack(batch):
        calls.append(len(batch))
        return default_collate(batch)

    monkeypatch.setattr(torch.utils.data, "default_collate", stack)
    fallbacks = note_fallbacks(monkeypatch)
    assert drawn(KINDS[kind], collate_fn=stack)
    assert calls == [SIZE, SIZE]  # one in each epoch
    assert fallbacks == []


def test_an_example_that_must_be_converted_ends_it(monkeypatch):
    """The examples before it in its batch are put once, and those after it, too."""

    def make(i):
        return image(i).T.contiguous().T if i % 83 == 45 else image(i).T.T, i

    fallbacks = note_fallbacks(monkeypatch)
    batches = drawn(make)
    assert_same(batches, stacked(monkeypatch, make))
    seen = torch.cat([labels for _, labels in batches])
    assert torch.equal(seen.sort().values, torch.arange(COUNT).repeat_interleave(4))
    assert len(fallbacks) <= 2


@pytest.mark.parametrize(
    "options",
    [
        {"drop_last": True},
        {"shuffle": True},
        {"batch_size": 1},
        {"batch_size": 20},
        {"collate_fn": lambda batch: [*default_collate(batch)]},
        {"num_workers": 1},
    ],
    ids=lambda options: next(iter(options)) + str(next(iter(options.values())))[:6],
)
def test_the_options_of_a_data_loader_mean_what_they_say(monkeypatch, options):
    torch.manual_seed(3)
    found = drawn(KINDS["pair"], **options)
    torch.manual_seed(3)
    assert_same(found, stacked(monkeypatch, KINDS["pair"], **options))


BAD = {
    "shape": lambda i: (torch.zeros(3 + (i == 30)), i),
    "dtype": lambda i: (torch.zeros(3).to([torch.float32, torch.float64][i == 30]), i),
    "number": lambda i: (image(i), i if i != 24 else 0.5),
    "structure": lambda i: (image(i), i) if i != 30 else (image(i), i, i),
    "type": lambda i: (image(i), i) if i != 30 else "xy",
    "tensor for a tuple": lambda i: (i, i) if i < 24 else torch.tensor([i, i]),
    "raises": lambda i: (image(i), 1 // (30 - i)),
    "none": lambda i: (image(i), i if i != 30 else None),
    "rounded": lambda i: (image(i), np.float32(i) if i < 24 else i + 0.1),
    "kinds": lambda i: (image(i), i if i < 24 else float(i)),
    "text first": lambda i: (image(i), i if i != 24 else "24"),
    "tuple for a number": lambda i: (image(i), i if i != 30 else image),
    "tuple for a dict": lambda i: {"x": image(i)} if i != 30 else (image(i), i),
    "yes or no": lambda i: (image(i), i if i < 24 else i % 2 == 0),
}


@pytest.mark.parametrize("kind", BAD)
def test_errors_are_those_of_stacked_batches(monkeypatch, kind):
    with pytest.raises(echobuf.UpstreamError) as one:
        drawn(BAD[kind])
    with pytest.raises(echobuf.UpstreamError) as other:
        stacked(monkeypatch, BAD[kind])
    assert type(one.value) is type(other.value)
    assert str(one.value) == str(other.value)
    assert type(one.value.__cause__) is type(other.value.__cause__)


class ChangedIterator(type(iter(DataLoader([0])))):
    def __next__(self):
        return super().__next__() * 10


class ByIterator(DataLoader):
    def _get_iterator(self):
        return ChangedIterator(self)


class ByMethod(DataLoader):
    name = "_next_data"

    def __iter__(self):
        items = super().__iter__()
        fetcher = vars(items)["_dataset_fetcher"]
        changed = items if hasattr(items, self.name) else fetcher
        method = getattr(changed, self.name)
        setattr(changed, self.name, lambda *args: method(*args) * 10)
        return items


class ByFetcher(ByMethod):
    name = "fetch"


@pytest.mark.parametrize("kind", [ByIterator, ByMethod, ByFetcher])
def test_who_changes_batches_of_a_data_loader_sees_batches(kind):
    with echobuf.torch.EchoLoader(
        kind(torch.arange(20), batch_size=4), window=8, factor=1
    ) as loader:
        assert torch.equal(torch.cat([*loader]).sort().values, torch.arange(20) * 10)


@pytest.mark.parametrize("kind", [int, torch.Tensor])
def test_what_torch_is_told_to_make_of_examples_is_made_of_all(monkeypatch, kind):
    def stack(batch, *, collate_fn_map=None):
        return torch.stack([torch.as_tensor(one) for one in batch]) + 100

    monkeypatch.setitem(collate.default_collate_fn_map, kind, stack)
    data = range(20) if kind is int else torch.arange(20)
    with echobuf.torch.EchoLoader(
        DataLoader(data, batch_size=4), window=8, factor=1
    ) as loader:
        assert torch.equal(torch.cat([*loader]).sort().values, torch.arange(20) + 100)


def test_an_empty_batch_is_refused_as_torch_does(monkeypatch):
    def draw():
        upstream = DataLoader(torch.arange(9), batch_sampler=[[0, 1], [], [2, 3]])
        with echobuf.torch.EchoLoader(upstream, window=4, factor=1) as loader:
            list(loader)

    with pytest.raises(echobuf.UpstreamError, match="index out of range"):
        draw()
    monkeypatch.setattr(feeder, "unstack", lambda items, first: None)
    with pytest.raises(echobuf.UpstreamError, match="index out of range"):
        draw()


def test_a_loader_goes_on_in_the_middle_of_an_epoch(monkeypatch):
    def make():
        upstream = DataLoader(Examples(KINDS["pair"]), batch_size=SIZE)
        return echobuf.torch.EchoLoader(upstream, window=24, factor=2, seed=1)

    with make() as loader:
        expected = [*loader]
    with make() as loader:
        batches = iter(loader)
        head = [next(batches) for _ in range(5)]
        state = loader.state_dict()
    with make() as again:
        again.load_state_dict(state)
        assert_same([*head, *again], expected)


def test_whole_batches_are_stacked():
    upstream = DataLoader(Examples(KINDS["pair"]), batch_size=SIZE)
    loader = echobuf.torch.EchoLoader(upstream, window=2, factor=1, unit="batch")
    with loader:
        labels = torch.cat([y for _, y in loader])
    assert torch.equal(labels.sort().values, torch.arange(COUNT))


def test_examples_in_one_piece_of_memory_come_whole(monkeypatch):
    """A dataset may give out views of what it changes for the next batch."""

    class Reused(Dataset):
        def __init__(self):
            self.memory = torch.zeros(SIZE, 5, dtype=torch.int64)

        def __len__(self):
            return 64

        def __getitem__(self, index):
            return self.memory[index % SIZE].fill_(index)

    loader = echobuf.torch.EchoLoader(
        DataLoader(Reused(), batch_size=SIZE), window=16, factor=1
    )
    with loader:
        rows = torch.cat([*loader])
    assert torch.equal(rows.sort(dim=0).values, torch.arange(64)[:, None].expand(-1, 5))
