"""A DataLoader's examples that are made a few at a time: by whom, and which are not."""

import contextlib
import weakref

import numpy as np
import pytest
import torch
from torch.utils import data
from torch.utils.data import DataLoader

import echobuf
import echobuf.torch
from test_unstacked import (
    COUNT,
    KINDS,
    SIZE,
    Examples,
    Pair,
    assert_same,
    drawn,
    few_at_a_time,  # noqa: F401 - a fixture
    image,
    note_fallbacks,
    stacked,
)

pytestmark = pytest.mark.host


@pytest.mark.parametrize(("size", "most"), [(8, 64), (9_000, 7), (100_000, 1)])
def test_few_large_examples_are_made_ahead(monkeypatch, size, most):
    monkeypatch.undo()
    alive, found = weakref.WeakSet(), []

    def make(i):
        found.append(len(alive))
        made = torch.full((size,), i, dtype=torch.float32)
        alive.add(made)
        return made

    upstream = DataLoader(Examples(make), batch_size=64)
    with echobuf.torch.EchoLoader(upstream, window=64, factor=1) as loader:
        rows = torch.cat([batch[:, 0] for batch in loader])
    assert torch.equal(rows.sort().values, torch.arange(COUNT, dtype=torch.float32))
    assert max(found[64:]) <= most  # the first batch is stacked


class Several(Examples):
    def __init__(self, make):
        super().__init__(make)
        self.asked = []

    def __getitems__(self, indices):
        self.asked.append(len(indices))
        return [self.make(index) for index in indices]


def test_a_dataset_that_makes_whole_batches_does(monkeypatch):
    dataset = Several(KINDS["pair"])
    found = drawn(lambda i: None, lambda make: dataset)
    assert dataset.asked == [8] * 10 + [3] + [8] * 10 + [3]
    assert_same(found, stacked(monkeypatch, KINDS["pair"]))


def test_a_dataset_ends_an_epoch_by_stop_iteration():
    """As the DataLoader then does, without an error; three were made at a time."""

    def make(i):
        if i == 21:
            raise StopIteration
        return image(i), i

    with pytest.warns(UserWarning, match="an epoch has 83 .* one has had 19"):
        labels = torch.cat([y for _, y in drawn(make)])
    counts = torch.bincount(labels, minlength=COUNT)
    assert set(counts[:18].tolist()) == {4}  # 2 epochs, each used twice
    assert counts[19:].sum() == 0


def test_a_dataset_may_end_an_epoch_in_a_batch_that_is_stacked(monkeypatch):
    def make(i):
        if i == 21:
            raise StopIteration
        return Pair(image(i), i) if i == 17 else (image(i), i)

    fallbacks = note_fallbacks(monkeypatch)
    with pytest.warns(UserWarning, match="an epoch has 83 .* one has had 17"):
        labels = torch.cat([y for _, y in drawn(make)])
    assert len(fallbacks) == 2
    assert labels.max() == 16


@pytest.mark.parametrize("kind", [list, lambda it: (i for i in it), tuple, np.array])
def test_indices_of_a_batch_are_of_any_type(monkeypatch, kind):
    """Those that are made with the examples are made one for one, as in torch."""

    class Sampler:
        def __iter__(self):
            for start in range(0, COUNT, SIZE):
                yield kind([int(i) for i in range(start, min(COUNT, start + SIZE))])

    class Drawn(Sampler):
        def __iter__(self):
            for start in range(0, 80, SIZE):
                yield (start + int(torch.randint(SIZE, ())) for _ in range(SIZE))

    def make(i):
        return image(i) + torch.rand(()), i

    options = {"batch_size": 1, "batch_sampler": Sampler()}
    torch.manual_seed(1)
    found = drawn(make, **options)
    torch.manual_seed(1)
    assert_same(found, stacked(monkeypatch, make, **options))
    options["batch_sampler"] = Drawn()
    torch.manual_seed(1)
    found = drawn(make, **options)
    torch.manual_seed(1)
    assert_same(found, stacked(monkeypatch, make, **options))


def test_a_dataset_of_batches_makes_them():
    class Batches(Examples):
        def __getitem__(self, indices):
            return [image(i) for i in indices]

    batches = data.BatchSampler(
        data.SequentialSampler(range(COUNT)), SIZE, drop_last=False
    )
    upstream = DataLoader(
        Batches(None), batch_size=None, sampler=batches, collate_fn=data.default_collate
    )
    with echobuf.torch.EchoLoader(upstream, window=24, factor=1) as loader:
        firsts = torch.cat([batch[:, 0, 0] for batch in loader])
    assert torch.equal(firsts.sort().values, torch.arange(COUNT, dtype=torch.float32))


@pytest.mark.parametrize("end", ["break", "error"])
def test_an_iterator_that_lives_on_gives_batches_again(end):
    def make(i):
        return image(1 // (20 - i) if end == "error" else i), i

    batches = iter(DataLoader(Examples(make), batch_size=4))

    class Upstream:
        def __iter__(self):
            return batches

    loader = echobuf.torch.EchoLoader(
        Upstream(), batched=True, batch_size=4, window=4, factor=1
    )
    with loader, contextlib.suppress(echobuf.UpstreamError):
        for _ in loader:
            if end == "break":
                break
    assert [type(leaf) for leaf in next(batches)] == [torch.Tensor] * 2
