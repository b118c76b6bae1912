"""A loader's default window, length, truth, attributes and `repr`."""

import math
import threading

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset

import echobuf
import echobuf.torch
from helpers import WAIT_S
from opened_states import opened
from test_loader import Numbers, numbers_of

pytestmark = pytest.mark.usefixtures("no_leaked_threads")


class Examples(Dataset):
    def __init__(self, n=40):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return {"id": index, "x": torch.full((2,), float(index))}


class Stream(IterableDataset):
    def __iter__(self):
        return (Examples()[index] for index in range(40))


LOADERS = [echobuf.EchoLoader, echobuf.torch.EchoLoader]


# ---- window


@pytest.mark.parametrize(
    ("factor", "batches"),
    [("auto", 32), (1, 32), (2, 32), (3, 33), (2.5, 33), (1.5, 32), (7, 35), (40, 40)],
)
@pytest.mark.parametrize("size", [1, 4])
def test_a_window_that_is_left_out_is_32_batches(size, factor, batches):
    loader = echobuf.EchoLoader(Numbers(9), batch_size=size, factor=factor)
    given = echobuf.EchoLoader(
        Numbers(9), batch_size=size, factor=factor, window=size * batches
    )
    state = loader.state_dict()
    assert opened(state)["arguments"]["window"] == size * batches
    given.load_state_dict(state)
    if factor != "auto":
        assert [*map(str, loader)] == [*map(str, given)]
        assert loader.state_dict() == given.state_dict()


def test_it_follows_from_the_first_batch_where_that_says_the_batch_size():
    batches = [{"id": np.arange(s, s + 6)} for s in range(0, 600, 6)]

    def make(**kwargs):
        return echobuf.EchoLoader(batches, batched=True, factor=2, seed=1, **kwargs)

    loader = make()
    fresh = loader.state_dict()
    assert opened(fresh)["arguments"]["window"] is None
    assert "window=None" in repr(loader)
    assert numbers_of(loader) == numbers_of(make(window=192, batch_size=6))
    assert opened(loader.state_dict())["arguments"]["window"] == 192
    assert "batch_size=6, window=192" in repr(loader)
    resumed, at_start = make(), make(window=192)
    epoch = iter(loader)
    taken = numbers_of(next(epoch) for _ in range(3))
    resumed.load_state_dict(loader.state_dict())
    assert numbers_of(resumed) == numbers_of(epoch)
    assert len(taken) == 18
    at_start.load_state_dict(fresh)
    assert len(numbers_of(at_start)) == 1200


@pytest.mark.parametrize("factor", [2, 3])
def test_whole_batches_have_a_window_of_32_batches(factor):
    batches = [np.arange(4) for _ in range(5)]
    loader = echobuf.EchoLoader(batches, unit="batch", factor=factor)
    assert opened(loader.state_dict())["arguments"]["window"] == {2: 32, 3: 33}[factor]
    assert len(list(loader)) == 5 * factor


def test_that_of_a_data_loader_is_known_at_once():
    loader = echobuf.torch.EchoLoader(DataLoader(Examples(), batch_size=5))
    assert opened(loader.state_dict())["arguments"]["window"] == 160
    assert {int(each) for batch in loader for each in batch["id"]} == set(range(40))


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"factor": 0.5}, {"window": 0}])
def test_other_arguments_are_refused_by_name_without_a_window(wrong):
    with pytest.raises(echobuf.OptionError, match=f"`{next(iter(wrong))}` is"):
        echobuf.EchoLoader([1], **{"batch_size": 2, **wrong})


# ---- length


def test_with_auto_len_says_what_to_use():
    loader = echobuf.EchoLoader(Numbers(9), batch_size=2)
    with pytest.raises(TypeError, match=r"`max_batches\(\)` is an upper bound"):
        len(loader)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("max_factor", [1, 3])
def test_the_most_batches_come_where_upstream_waits_for_them(max_factor, drop_last):
    n = 11  # a quarter of the window, with which the first pass begins
    go_on = threading.Event()

    def slow():
        yield from range(n)
        assert go_on.wait(WAIT_S)

    loader = echobuf.EchoLoader(
        slow(), batch_size=4, window=44, length=n, max_factor=max_factor,
        drop_last=drop_last,
    )  # fmt: skip
    most = loader.max_batches()
    assert most == (n * max_factor) // 4 + (not drop_last and n * max_factor % 4 > 0)
    served = 0
    for batch in loader:
        served += 1
        if n * max_factor - 4 * served < 4:  # what is left is no batch
            go_on.set()
        assert len(batch) <= 4
    assert served == most


@pytest.mark.parametrize("upstream_s", [0.0, 0.001])
def test_no_epoch_has_more_than_the_most_batches(upstream_s):
    pause = threading.Event()

    class Slow:
        def __len__(self):
            return 60

        def __iter__(self):
            for number in range(60):
                pause.wait(upstream_s)
                yield number

    loader = echobuf.EchoLoader(Slow(), batch_size=3, window=20, max_factor=4)
    for _ in range(3):
        count = sum(1 for _ in loader)
        assert 20 <= count <= loader.max_batches() == 80


@pytest.mark.parametrize("window", [8, 30, 100])
@pytest.mark.parametrize("factor", [1, 3, 1.5, 2.5, 3.3])
def test_with_a_fixed_factor_it_is_the_length_of_the_longest_epoch(factor, window):
    upstream = [np.zeros(1)] * 33
    loader = echobuf.EchoLoader(upstream, batch_size=1, window=window, factor=factor)
    longest = max(len(list(loader)) for _ in range(4))
    segment = math.ceil(window / math.ceil(factor))
    assert longest <= loader.max_batches() <= 33 * math.ceil(factor)
    assert loader.max_batches() <= 33 * factor + (factor % 1 and segment)
    if factor % 1 == 0:
        assert loader.max_batches() == longest == len(loader)


def test_with_whole_batches_it_counts_those():
    whole = echobuf.EchoLoader([np.zeros(2)] * 5, unit="batch", max_factor=3)
    assert whole.max_batches() == 15


def test_without_a_length_it_is_a_type_error():
    for loader in (
        echobuf.EchoLoader(Numbers(9), batch_size=2),
        echobuf.EchoLoader([np.zeros(2)], batched=True, length=2),
    ):
        with pytest.raises(TypeError, match=r"`length=`|`batch_size`"):
            loader.max_batches()


# ---- truth


class Broken:
    def __iter__(self):
        return iter([1])

    def __len__(self):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("upstream", "factor", "truth"),
    [
        ([1, 2], 2, True),
        ([1, 2], "auto", True),
        ([], 2, False),
        ([], "auto", True),
        (iter([1]), 2, True),
        (Broken(), 2, True),
    ],
)
def test_a_loader_is_true_unless_it_is_known_to_be_empty(upstream, factor, truth):
    with echobuf.EchoLoader(upstream, batch_size=1, factor=factor) as loader:
        assert bool(loader) is truth
    assert isinstance(bool(loader), bool)


# ---- attributes


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("workers", [0, 2])
def test_those_of_a_data_loader(kind, workers):
    upstream = DataLoader(Examples(), batch_size=5, shuffle=True, num_workers=workers)
    loader = kind(upstream, factor=2)
    assert loader.dataset is upstream.dataset
    assert len(loader.dataset) == 40
    assert loader.sampler is upstream.sampler
    assert loader.batch_size == 5
    assert loader.num_workers == workers
    assert loader.drop_last is False
    assert kind(upstream, batch_size=8, drop_last=True).batch_size == 8
    assert kind(upstream, batch_size=8, drop_last=True).drop_last is True
    assert kind(upstream, unit="batch").batch_size == 5


def test_those_of_a_data_loader_without_a_batch_size_or_a_sampler():
    sampler = BatchSampler(range(40), 4, drop_last=True)
    upstream = DataLoader(Examples(), batch_sampler=sampler)
    assert echobuf.torch.EchoLoader(upstream).batch_size == 4
    stream = DataLoader(Stream(), batch_size=None)
    loader = echobuf.torch.EchoLoader(stream, batch_size=3)
    assert loader.batch_size == 3
    assert loader.dataset is stream.dataset


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("sampler", [None, [3, 1]])
@pytest.mark.parametrize("workers", [0, 2])
def test_those_of_a_map_style_data_set(kind, sampler, workers):
    dataset = Examples()
    loader = kind(dataset, batch_size=4, sampler=sampler, num_workers=workers)
    assert loader.dataset is dataset
    assert list(loader.sampler) == (sampler or list(range(40)))
    assert loader.num_workers == workers
    assert (loader.batch_size, loader.drop_last) == (4, False)


@pytest.mark.parametrize("kind", LOADERS)
def test_those_of_an_iterable(kind):
    upstream = Numbers(9)
    loader = kind(upstream, batch_size=4)
    assert loader.dataset is upstream
    assert loader.sampler is None
    assert (loader.num_workers, loader.batch_size) == (0, 4)
    batched = kind([{"id": np.arange(6)}], batched=True, factor=1)
    assert batched.batch_size is None
    next(iter(batched))
    assert batched.batch_size == 6


def test_the_tutorial_s_loop():
    loader = echobuf.torch.EchoLoader(DataLoader(Examples(), batch_size=5), factor=2)
    size, count, seen = len(loader.dataset), len(loader), 0
    for _, batch in enumerate(loader):
        seen += len(batch["id"])
    assert math.ceil(seen / loader.batch_size) == count == 2 * size // 5


@pytest.mark.parametrize(
    ("make", "shown"),
    [
        (
            lambda: echobuf.EchoLoader([1, 2], batch_size=2, factor=2.5),
            "echobuf.EchoLoader(list, batch_size=2, window=66, factor=2.5, "
            "unit='example', device='cpu')",
        ),
        (
            lambda: echobuf.torch.EchoLoader(DataLoader(Examples(), 5), window=80),
            "echobuf.torch.EchoLoader(DataLoader, batch_size=5, window=80, "
            "factor='auto', unit='example', device='cpu')",
        ),
        (
            lambda: echobuf.EchoLoader([np.zeros(2)], unit="batch"),
            "echobuf.EchoLoader(list, window=32, factor='auto', unit='batch', "
            "device='cpu')",
        ),
    ],
)
def test_repr(make, shown):
    loader = make()
    assert repr(loader) == shown
    loader.close()
    assert repr(loader) == shown[: shown.index("(")] + "(closed)"
