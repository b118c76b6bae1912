"""Renewed items from workers and ranks: those of one process, made as often."""

import copy
import itertools
import multiprocessing

import pytest

pytest.importorskip("torch")

from torch.utils.data import DataLoader, Subset
from torch.utils.data.distributed import DistributedSampler

import echobuf
import echobuf.torch
from renewed_data import Drawn, Renewed, make, reference

COUNT = 24
EPOCHS = 7


def expected(tmp_path, source):
    """Return the numbers of each epoch, by index, without workers."""
    cached = make(tmp_path / "alone", source=Drawn(COUNT, source))
    table = []
    for epoch in range(EPOCHS):
        cached.set_epoch(epoch)
        table.append([cached[index]["x"].tolist() for index in range(COUNT)])
    return table, cached.stats().misses


def by_index(batches):
    found = {}
    for batch in batches:
        for index, x in zip(batch["index"], batch["x"], strict=True):
            found.setdefault(int(index), x.tolist())
    return [found[index] for index in range(COUNT)]


ALONE = {}
FORKED = {"num_workers": 2}
PERSISTENT = {**FORKED, "persistent_workers": True}
SPAWNED = {**PERSISTENT, "num_workers": 1, "multiprocessing_context": "spawn"}


@pytest.mark.parametrize(
    ("source", "options"),
    [
        *itertools.product(("seed", "numpy", "torch"), (ALONE, FORKED, PERSISTENT)),
        ("torch", SPAWNED),
    ],
)
def test_a_data_loader_serves_the_items_of_one_process(
    place, tmp_path, source, options
):
    table, made = expected(tmp_path, source)
    cached = make(place(), source=Drawn(COUNT, source))
    loader = DataLoader(cached, batch_size=5, shuffle=True, **options)
    for epoch in range(EPOCHS):
        cached.set_epoch(epoch)
        assert by_index(loader) == table[epoch]
    stats = cached.stats()
    assert (stats.misses, stats.damaged) == (made, 0)


def test_persistent_workers_follow_any_epoch(tmp_path):
    table, _ = expected(tmp_path, "seed")
    cached = make(tmp_path / "workers", source=Drawn(COUNT, "seed"))
    loader = DataLoader(cached, batch_size=4, num_workers=2, persistent_workers=True)
    for epoch in (0, 5, 2, 2, 6, 1):
        cached.set_epoch(epoch)
        batches = iter(loader)
        if epoch == 5:
            next(batches)  # and leaves the others, some of which are being made
            continue
        assert by_index(batches) == table[epoch]


def test_a_part_of_it_in_a_loader_follows_the_epoch_of_the_whole(tmp_path):
    table, _ = expected(tmp_path, "seed")
    cached = make(tmp_path / "workers", source=Drawn(COUNT, "seed"))
    loader = DataLoader(Subset(cached, range(COUNT)), batch_size=4)
    for epoch in (0, 3):
        cached.set_epoch(epoch)
        assert by_index(loader) == table[epoch]


ECHO = {"batch_size": 4, "window": 8, "factor": 2}


@pytest.mark.parametrize(
    ("source", "wrap"),
    [
        ("seed", lambda cached: echobuf.EchoLoader(cached, **ECHO)),
        *(
            (source, lambda cached: echobuf.EchoLoader(cached, num_workers=2, **ECHO))
            for source in ("seed", "numpy", "torch")
        ),
        (
            "torch",
            lambda cached: echobuf.torch.EchoLoader(
                DataLoader(cached, batch_size=4, **PERSISTENT), window=8, factor=2
            ),
        ),
    ],
)
def test_a_loader_of_echobuf_tells_it_the_epoch(place, tmp_path, source, wrap):
    table, made = expected(tmp_path, source)
    cached = make(place(), source=Drawn(COUNT, source))
    loader = wrap(cached)
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)
        assert by_index(loader) == table[epoch]
    assert cached.stats().misses == made


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_of_echobuf_that_is_resumed_serves_the_same_batches(tmp_path, workers):
    """In a directory that has the items, and in one that has none."""

    def make_loader(name):
        cached = make(tmp_path / name, source=Drawn(COUNT, "seed"))
        return echobuf.EchoLoader(cached, num_workers=workers, seed=3, **ECHO)

    def texts(batches):
        return [[batch["index"].tolist(), batch["x"].tolist()] for batch in batches]

    loader = make_loader("first")
    loader.set_epoch(4)
    batches = iter(loader)
    begun = [next(batches) for _ in range(5)]
    state = loader.state_dict()
    rest = texts(batches)
    assert len(rest) + len(begun) == COUNT * 2 // 4
    for name in ("first", "new"):
        resumed = make_loader(name)
        resumed.set_epoch(state["epoch"])
        resumed.load_state_dict(state)
        assert texts(resumed) == rest


@pytest.mark.parametrize("shared", [True, False])
def test_ranks_serve_what_one_process_serves(tmp_path, shared):
    """Each rank reads its part of an epoch, which is another one in each epoch."""
    table, made = expected(tmp_path, "seed")
    fork = multiprocessing.get_context("fork")
    pipes = []
    for rank in range(2):
        directory = tmp_path / ("shared" if shared else f"of {rank}")
        ours, theirs = fork.Pipe()
        process = fork.Process(target=run_rank, args=(rank, directory, theirs))
        process.start()
        pipes.append((ours, process))
    misses = 0
    for epoch in range(EPOCHS):
        found = {}
        for ours, _ in pipes:
            ours.send(epoch)
        for ours, _ in pipes:
            part, count = ours.recv()
            found.update(part)
            misses += count
        assert [found[index] for index in range(COUNT)] == table[epoch]
    for ours, process in pipes:
        ours.send(None)
        process.join(60)
        assert process.exitcode == 0
    assert misses == made if shared else misses > made


def run_rank(rank, directory, pipe):
    cached = make(directory, source=Drawn(COUNT, "seed"))
    sampler = DistributedSampler(cached, 2, rank)
    for epoch in iter(pipe.recv, None):
        sampler.set_epoch(epoch)
        cached.set_epoch(epoch)
        before = cached.stats().misses
        part = {index: cached[index]["x"].tolist() for index in sampler}
        pipe.send((part, cached.stats().misses - before))


def test_a_worker_that_sets_the_epoch_reads_what_it_has_set(tmp_path):
    """Workers of one pool may be in different epochs."""
    cached = make(tmp_path, source=Renewed(3))
    cached.set_epoch(1)
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()

    def work():
        cached.set_epoch(3)
        theirs.send(cached[0]["generation"])
        theirs.recv()
        theirs.send(cached[0]["generation"])

    process = fork.Process(target=work)
    process.start()
    assert ours.recv() == reference(3, 3, 4)[3][0] == 1
    cached.set_epoch(6)
    ours.send(None)
    assert ours.recv() == 1
    process.join(60)
    assert cached[0]["generation"] == 2
    assert copy.copy(cached)[0]["generation"] == 2
