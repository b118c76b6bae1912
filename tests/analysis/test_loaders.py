"""A torch DataLoader under `analyze`: parts, workers, order, random numbers."""

import multiprocessing
import time

import pytest

from virtual_time import VirtualClock, measure, step_of

torch = pytest.importorskip("torch")
data = pytest.importorskip("torch.utils.data")

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

SECONDS = 0.6


class Numbers(data.Dataset):
    def __init__(self, count=400, sleep_s=0.0, sleep=time.sleep):
        self.count, self.sleep_s, self.sleep, self.asked = count, sleep_s, sleep, []

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.sleep_s:
            self.sleep(self.sleep_s)
        self.asked.append(index)
        return torch.full((3,), float(index)), index


class Fetched(Numbers):
    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Stream(data.IterableDataset):
    def __init__(self, count=100):
        self.count = count

    def __len__(self):
        return self.count

    def __iter__(self):
        return iter(torch.arange(self.count * 2.0).reshape(-1, 2))


def step(batch):
    rows = batch[0] if isinstance(batch, list) else batch
    assert isinstance(rows, torch.Tensor)
    time.sleep(0.002)


def test_fetching_and_collating_are_told_apart():
    def collate(examples):
        time.sleep(0.02)
        return data.default_collate(examples)

    loader = data.DataLoader(
        Numbers(sleep_s=0.002), batch_size=4, shuffle=True, collate_fn=collate
    )
    got = measure(loader, step, seconds=2)
    parts = got.loader
    assert parts.workers == 0
    assert parts.pin_s is None
    assert parts.fetch_s >= 0.002  # sleeps are not shorter than asked for
    assert parts.collate_s >= 0.02 / 4
    assert got.upstream_s.mean >= 0.002 + 0.02 / 4
    assert got.length == 400
    assert (got.batch_size, got.item) == (4, 4)


class OwnBatches(data.Dataset):
    """Of 8 examples each, which take 8 seconds to fetch."""

    def __init__(self, clock):
        self.clock = clock

    def __len__(self):
        return 50

    def __getitem__(self, index):
        self.clock.pass_by(8.0)
        return torch.full((8, 2), float(index))


class StreamOfBatches(data.IterableDataset):
    def __init__(self, clock):
        self.batches = OwnBatches(clock)

    def __iter__(self):
        return (self.batches[index] for index in range(50))


@pytest.mark.parametrize("kind", [OwnBatches, StreamOfBatches])
def test_parts_are_those_of_one_example(kind):
    clock = VirtualClock()

    def collate(batch):
        clock.pass_by(2.0)
        return batch

    loader = data.DataLoader(kind(clock), batch_size=None, collate_fn=collate)
    got = measure(loader, step_of(clock, 4.0), clock=clock)
    assert got.batch_size == 8
    assert got.upstream_s.mean == pytest.approx(10 / 8)
    assert got.loader.fetch_s == pytest.approx(1.0)
    assert got.loader.collate_s == pytest.approx(2 / 8)


def open_in_worker(_):
    data.get_worker_info().dataset.file = [0.0] * 400


class InWorkersOnly(Numbers):
    def __getitem__(self, index):
        return torch.full((3,), self.file[index])


def test_a_data_set_that_works_in_workers_only():
    loader = data.DataLoader(
        InWorkersOnly(), batch_size=8, num_workers=1, worker_init_fn=open_in_worker
    )
    got = measure(loader, step, seconds=SECONDS)
    assert got.loader is None
    (note,) = [note for note in got.notes if "parts of the DataLoader" in note]
    assert "no attribute 'file'" in note


@pytest.mark.parametrize("kind", [Numbers, Fetched])
@pytest.mark.parametrize("batch_size", [8, None])
def test_parts_of_data_sets(kind, batch_size):
    clock = VirtualClock()
    makes = data.default_collate if batch_size else data.default_convert

    def collate(examples):
        clock.pass_by(0.004)
        return makes(examples)

    loader = data.DataLoader(
        kind(sleep_s=0.001, sleep=clock.pass_by),
        batch_size=batch_size,
        collate_fn=collate,
    )
    size = {} if batch_size else {"batch_size": 8, "batched": False}
    got = measure(loader, step_of(clock, 0.002), clock=clock, **size)
    assert got.loader.fetch_s == pytest.approx(0.001)
    assert got.loader.collate_s == pytest.approx(0.004 / (batch_size or 1))
    assert got.batch_size == 8


def test_a_stream():
    loader = data.DataLoader(Stream(), batch_size=5)
    got = measure(loader, step, seconds=SECONDS)
    assert got.loader.fetch_s > 0
    assert got.length == 100
    assert not any("IterableDataset" in note for note in got.notes)


def test_workers_of_a_stream_each_yield_all_of_it():
    loader = data.DataLoader(Stream(), batch_size=5, num_workers=2)
    got = measure(loader, step, seconds=SECONDS)
    assert got.loader.workers == 2
    (note,) = [note for note in got.notes if "IterableDataset" in note]
    assert "2 workers" in note


@pytest.mark.filterwarnings("ignore:.*worker processes in total")
def test_an_epoch_of_one_batch_for_each_worker():
    loader = data.DataLoader(Numbers(count=32), batch_size=4, num_workers=8)
    got = measure(loader, step, seconds=SECONDS)
    assert got.upstream_s.count >= 8
    assert got.length == 32


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_are_ended(persistent):
    loader = data.DataLoader(
        Numbers(), batch_size=8, num_workers=1, persistent_workers=persistent
    )
    got = measure(loader, step, seconds=SECONDS)
    assert got.loader.workers == 1
    for child in multiprocessing.active_children():
        child.join(10)
    assert not multiprocessing.active_children()
    assert len(list(loader)) == 50  # it goes on as a new one would
    loader._iterator = None  # noqa: SLF001 - torch's


def test_workers_that_ran_before_are_left():
    loader = data.DataLoader(
        Numbers(), batch_size=8, num_workers=1, persistent_workers=True
    )
    assert len(list(loader)) == 50
    (before,) = multiprocessing.active_children()
    measure(loader, step, seconds=SECONDS)
    for child in {*multiprocessing.active_children()} - {before}:
        child.join(10)
    assert multiprocessing.active_children() == [before]
    loader._iterator._shutdown_workers()  # noqa: SLF001 - torch's


@pytest.mark.parametrize("own", [False, True])
def test_an_epoch_afterwards_is_what_it_would_have_been(own):
    generator = torch.Generator().manual_seed(3) if own else None
    loader = data.DataLoader(Numbers(), batch_size=8, shuffle=True, generator=generator)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    expected = [batch[1].tolist() for batch in loader]
    torch.set_rng_state(before)
    if own:
        generator.manual_seed(3)
    measure(loader, lambda batch: (torch.rand(9), step(batch)), seconds=SECONDS)
    assert torch.equal(torch.get_rng_state(), before)
    assert [batch[1].tolist() for batch in loader] == expected


def test_both_passes_ask_for_the_same_examples():
    dataset = Numbers(count=10**5)
    loader = data.DataLoader(dataset, batch_size=8, shuffle=True)
    marks = []
    measure(
        loader,
        step,
        seconds=SECONDS,
        progress=lambda name: marks.append(len(dataset.asked)),
    )
    first = dataset.asked[marks[0] : marks[1]]
    second = dataset.asked[marks[2] : marks[3]]
    count = min(len(first), len(second))
    assert count >= 8
    assert first[:count] == second[:count]


def test_types_that_numpy_lacks():
    examples = [torch.zeros(4, dtype=torch.bfloat16)] * 80
    loader = data.DataLoader(examples, batch_size=8)
    seen = set()

    def typed(batch):
        seen.add(batch.dtype)
        time.sleep(0.001)

    measure(loader, typed, seconds=SECONDS)
    assert seen == {torch.bfloat16}
