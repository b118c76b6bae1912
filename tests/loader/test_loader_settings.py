"""Settings of a DataLoader that people use: each works with the loader around it."""

import os
from collections import Counter

import pytest

pytest.importorskip("torch")

import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    WeightedRandomSampler,
    get_worker_info,
)

import echobuf.torch
import echobuf.transforms
from test_process import run

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

N, SIZE = 33, 5


class Numbers(Dataset):
    """Says its number, and which worker gave it."""

    def __init__(self, start=0, n=N):
        self.numbers = range(start, start + n)

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        info = get_worker_info()
        worker = -1 if info is None else info.id
        return {"id": self.numbers[index], "worker": worker, "mark": MARK[0]}


MARK = [0]  # what a worker_init_fn has set in its process


def mark_worker(worker):
    MARK[0] = 10 + worker


class Stream(IterableDataset):
    """Split among the workers."""

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for number in range(first, N, step):
            yield {"id": number, "worker": -1 if info is None else info.id}


class SizedStream(Stream):
    def __len__(self):
        return N


def echo(upstream, **kwargs):
    return echobuf.torch.EchoLoader(upstream, **{"window": 20, "factor": 2, **kwargs})


def ids(batches):
    return [each for batch in batches for each in batch["id"].tolist()]


def check_epochs(loader, expected=range(N), epochs=3, factor=2):
    """Each epoch uses each example so many times, and the length is as said."""
    for _ in range(epochs):
        batches = list(loader)
        assert Counter(ids(batches)) == Counter(factor * list(expected))
        try:
            length = len(loader)
        except TypeError:
            continue
        assert length == len(batches)
    return batches


# ---- workers

WORKERS = {
    "none": {},
    "workers": {"num_workers": 2},
    "persistent": {"num_workers": 2, "persistent_workers": True},
    "prefetch": {"num_workers": 2, "prefetch_factor": 4},
    "timeout": {"num_workers": 2, "timeout": 60},
    "any order": {"num_workers": 2, "in_order": False},
    "any order, persistent": {
        "num_workers": 2,
        "in_order": False,
        "persistent_workers": True,
    },
}


@pytest.mark.parametrize("kind", WORKERS)
def test_workers(kind):
    loader = echo(DataLoader(Numbers(), SIZE, **WORKERS[kind]))
    batches = check_epochs(loader)
    assert len(loader) == 14
    seen = {each for batch in batches for each in batch["worker"].tolist()}
    # With in_order=False one worker may have done it all.
    assert seen <= {0, 1} if WORKERS[kind] else seen == {-1}


@pytest.mark.parametrize("kind", WORKERS)
def test_an_epoch_that_is_left(kind):
    loader = echo(DataLoader(Numbers(), SIZE, **WORKERS[kind]))
    for drawn in (1, 4, 0):
        epoch = iter(loader)
        for _ in range(drawn):
            next(epoch)
    del epoch
    check_epochs(loader, epochs=2)


@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_how_workers_are_started(start):
    upstream = DataLoader(
        Numbers(),
        SIZE,
        num_workers=1,
        persistent_workers=True,
        multiprocessing_context=start,
    )
    check_epochs(echo(upstream), epochs=2)


class WithPid(Numbers):
    def __getitem__(self, index):
        return {"id": index, "pid": os.getpid()}


def pids(loader):
    return {each for batch in loader for each in batch["pid"].tolist()}


def test_persistent_workers_are_started_once():
    loader = echo(DataLoader(WithPid(), SIZE, **WORKERS["persistent"]))
    assert len({each for _ in range(3) for each in pids(loader)}) <= 2
    loader = echo(DataLoader(WithPid(), SIZE, **WORKERS["workers"]))
    assert len({each for _ in range(3) for each in pids(loader)}) >= 3


@pytest.mark.parametrize("kind", ["workers", "persistent"])
def test_worker_init_fn(kind):
    upstream = DataLoader(Numbers(), SIZE, worker_init_fn=mark_worker, **WORKERS[kind])
    for batch in check_epochs(echo(upstream)):
        assert (batch["mark"] == batch["worker"] + 10).all()
    assert MARK == [0]


# ---- random numbers


@pytest.mark.parametrize("workers", [0, 2])
def test_a_generator_is_drawn_from_as_without_echobuf(workers):
    def upstream():
        generator = torch.Generator().manual_seed(3)
        return DataLoader(
            Numbers(), SIZE, shuffle=True, generator=generator, num_workers=workers
        )

    plain, wrapped = upstream(), upstream()
    loader = echo(wrapped, unit="batch", window=1, factor=1)
    for _ in range(3):
        assert ids(loader) == ids(plain)
        assert torch.equal(wrapped.generator.get_state(), plain.generator.get_state())
    check_epochs(echo(upstream()))


def test_epochs_of_a_distributed_sampler():
    shares = [DistributedSampler(Numbers(), 2, rank, seed=1) for rank in range(2)]
    loaders = [echo(DataLoader(Numbers(), SIZE, sampler=share)) for share in shares]
    orders = []
    for epoch in range(3):
        got = []
        for share, loader in zip(shares, loaders, strict=True):
            loader.set_epoch(epoch)
            alone = DistributedSampler(Numbers(), 2, shares.index(share), seed=1)
            alone.set_epoch(epoch)
            got.append(ids(loader))
            assert Counter(got[-1]) == Counter(2 * list(alone))
            assert len(loader) == 7
        assert set(got[0] + got[1]) == set(range(N))
        orders.append(got)
    assert len({str(each) for each in orders}) == 3


def test_an_epoch_is_told_as_trainers_tell_a_data_loader():
    share = DistributedSampler(Numbers(), 1, 0)
    loader = echo(DataLoader(Numbers(), SIZE, sampler=share))
    loader.batch_sampler.sampler.set_epoch(3)
    assert share.epoch == loader.state_dict()["epoch"] == 3


# ---- what is sampled


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        (lambda: SequentialSampler(Numbers()), range(N)),
        (lambda: RandomSampler(Numbers()), range(N)),
        (lambda: [1, 3, 5, 30], [1, 3, 5, 30]),
        (lambda: WeightedRandomSampler([0, 1, 0], 12), [1] * 12),
    ],
)
def test_a_sampler(sampler, expected):
    loader = echo(DataLoader(Numbers(), 4, sampler=sampler()))
    assert len(loader) == -(-2 * len(expected) // 4)
    check_epochs(loader, expected)


class Lengths(Sampler):
    """Batches of the lengths it was made with."""

    def __init__(self, *lengths):
        self.lengths = lengths

    def __iter__(self):
        start = 0
        for length in self.lengths:
            yield list(range(start, start + length))
            start += length

    def __len__(self):
        return len(self.lengths)


def test_a_batch_sampler():
    sampler = BatchSampler(RandomSampler(Numbers()), 4, drop_last=False)
    loader = echo(DataLoader(Numbers(), batch_sampler=sampler))
    assert len(loader) == 17
    batches = check_epochs(loader)
    assert {len(batch["id"]) for batch in batches[:-1]} == {4}


@pytest.mark.parametrize("lengths", [(5, 1, 7, 20), (1, 2, 3), (20, 13)])
def test_batches_of_different_lengths(lengths):
    upstream = DataLoader(Numbers(), batch_sampler=Lengths(*lengths))
    expected = range(sum(lengths))
    loader = echo(upstream, batch_size=6)
    with pytest.raises(TypeError, match="give `length=`"):
        len(loader)
    batches = check_epochs(loader, expected)
    assert {len(batch["id"]) for batch in batches[:-1]} == {6}
    known = echo(upstream, batch_size=6, length=sum(lengths))
    assert len(known) == -(-2 * sum(lengths) // 6)
    check_epochs(known, expected)
    # Without `batch_size` it is that of the first batch.
    check_epochs(echo(upstream), expected)


def test_whole_batches_of_different_lengths():
    lengths = (7, 5, 1, 6)
    upstream = DataLoader(Numbers(), batch_sampler=Lengths(*lengths))
    loader = echo(upstream, unit="batch", window=2)
    assert len(loader) == 8
    batches = check_epochs(loader, range(19))
    assert Counter(len(batch["id"]) for batch in batches) == Counter(2 * lengths)


@pytest.mark.parametrize("workers", [0, 2])
def test_drop_last(workers):
    upstream = DataLoader(Numbers(), SIZE, drop_last=True, num_workers=workers)
    loader = echo(upstream)
    assert len(loader) == 12
    check_epochs(loader, range(30))
    loader = echo(DataLoader(Numbers(), SIZE, num_workers=workers), drop_last=True)
    assert len(loader) == len(list(loader)) == 13


def test_no_batches_at_all():
    upstream = DataLoader(Numbers(), batch_size=None)
    loader = echo(upstream, batch_size=4)
    assert len(loader) == 17
    check_epochs(loader)


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (Subset(Numbers(), range(3, 20)), range(3, 20)),
        (ConcatDataset([Numbers(), Numbers(100, 9)]), [*range(N), *range(100, 109)]),
        (Subset(ConcatDataset([Numbers(), Numbers(50)]), [0, 40]), [0, 57]),
    ],
)
def test_datasets_of_datasets(dataset, expected):
    loader = echo(DataLoader(dataset, SIZE, shuffle=True))
    assert len(loader) == -(-2 * len(expected) // SIZE)
    check_epochs(loader, expected)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stream", [Stream, SizedStream])
def test_streams(stream, workers):
    loader = echo(DataLoader(stream(), SIZE, num_workers=workers))
    if stream is SizedStream and not workers:
        assert len(loader) == 14
    else:
        with pytest.raises(TypeError):
            len(loader)
    check_epochs(loader)


# ---- memory


# Torch says that nothing is pinned where there is no accelerator.
@pytest.mark.filterwarnings("ignore:.pin_memory. argument is set:UserWarning")
@pytest.mark.parametrize("workers", [0, 2])
def test_pinned_memory(workers):
    upstream = DataLoader(Numbers(), SIZE, pin_memory=True, num_workers=workers)
    batches = check_epochs(echo(upstream))
    # What is drawn lies in memory of the buffer's own.
    assert not any(batch["id"].is_pinned() for batch in batches)


# ---- the end


def test_a_program_may_end_while_torch_reads():
    """The thread is in native code of torch's then, where Python cannot end it."""
    run("""
        import torch
        import echobuf.torch

        def upstream():
            large = torch.ones(400, 400)
            while True:
                yield (large @ large)[0, :3]

        torch.set_num_threads(1)
        for turn in range(3):
            if (child := os.fork()) == 0:
                loader = echobuf.torch.EchoLoader(
                    upstream(), batch_size=4, window=4000, factor=2
                )
                epoch = iter(loader)
                sys.exit(0)
            status = status_of(child)
            assert status == 0, (turn, status)
        """)


def test_a_program_may_end_before_torch_has_read():
    """The thread comes back from torch's native code while the interpreter goes."""
    run("""
        import torch
        import echobuf.torch

        def upstream():
            large = torch.ones(2000, 2000)
            yield large[0, :3]
            calls.append(1)
            while True:
                yield (large @ large)[0, :3]

        class Slow:
            def __del__(self, sleep=time.sleep):  # among the last things
                sleep(2)

        torch.set_num_threads(1)
        if (child := os.fork()) == 0:
            calls = []
            loader = echobuf.torch.EchoLoader(
                upstream(), batch_size=4, window=4000, factor=2
            )
            epoch = iter(loader)
            while not calls:
                time.sleep(0.001)
            sys.slow = Slow()
            sys.exit(0)
        status = status_of(child)
        assert status == 0, status
        """)
