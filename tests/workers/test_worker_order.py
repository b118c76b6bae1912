"""Examples come in the sampler's order for any number of workers."""

import itertools
import multiprocessing
import time

import numpy as np
import pytest

import echobuf
from helpers import until
from ragged_worker_data import Texts
from ragged_worker_data import load as load_ragged
from same_batches import count_same
from schedule_reference import draw_infos
from worker_data import (
    KWARGS,
    Epochs,
    Foreign,
    Listed,
    Noted,
    Numbers,
    Random,
    Sleepy,
    Tensors,
    Troubled,
    Uneven,
    UntilThere,
    ids,
    load,
)

N = 150


def sampler():
    order = np.random.default_rng(1).permutation(N)
    return [*order[:70], -1, -N, *map(int, order[70:]), *order[:9]]


@pytest.mark.parametrize(
    ("workers", "method", "kwargs"),
    [
        (1, "spawn", {"prefetch": 2}),
        (2, multiprocessing.get_context("spawn"), {"overlap_epochs": True}),
        (3, "forkserver", {"factor": 1.5}),
    ],
)
def test_the_order_is_that_of_the_sampler(workers, method, kwargs):
    kwargs = {"sampler": sampler(), **kwargs}
    loader = load(Numbers(N), workers, multiprocessing_context=method, **kwargs)
    alone = load(Numbers(N), 0, **kwargs)
    assert len(loader) == len(alone)
    for _ in range(2):
        assert ids(loader) == ids(alone)
    loader.set_epoch(7)
    alone.set_epoch(7)
    assert ids(loader) == ids(alone)


def test_infos_number_examples_in_the_order_of_the_sampler():
    order = [9, 4, 4, 0, 11, *range(20)]
    with load(Numbers(20), 1, sampler=order, with_info=True) as loader:
        infos = []
        for batch, info in loader:
            assert batch["id"].tolist() == [order[each] for each in info.index.tolist()]
            infos += zip(info.index.tolist(), info.echo.tolist(), strict=True)
    assert infos == draw_infos(index for index, _ in infos)
    assert len(infos) == 2 * len(order)


@pytest.mark.parametrize(
    ("load", "dataset"), [(load, Numbers(N)), (load_ragged, Texts(N))]
)
def test_an_epoch_that_is_left_half_way_does_not_disturb_the_next(load, dataset):
    loader, alone = load(dataset, 2), load(dataset, 0)
    for drawn in (0, 1, 5):
        for each in (loader, alone):
            epoch = iter(each)
            for _ in range(drawn):
                next(epoch)
            del epoch
        loader.set_epoch(drawn)
        alone.set_epoch(drawn)
        assert count_same(loader, alone) > 10


class StatefulSampler(list):
    """A sampler with a state, which is not used: it is iterated from its start."""

    def state_dict(self):
        return {"at": 3}

    def load_state_dict(self, state):
        raise AssertionError("nobody has kept it")


@pytest.mark.parametrize("kind", [list, StatefulSampler])
def test_a_state_goes_on_exactly_and_makes_only_what_is_needed(tmp_path, kind):
    order = kind(range(N - 1, -1, -1))
    loader = load(Numbers(N), 2, sampler=order)
    epoch = iter(loader)
    for _ in range(60):
        next(epoch)
    state = loader.state_dict()
    rest = ids(epoch)
    other = load(Listed(N, tmp_path / "asked"), 1, sampler=order)
    other.load_state_dict(state)
    assert ids(other) == rest
    asked = [int(each) for each in (tmp_path / "asked").read_text().split()]
    assert asked == [order[0], *order[state["fresh_offset"] :]]  # the first one here
    assert 1 < len(asked) < N
    assert ids(other) == ids(loader)


def test_every_worker_works_and_they_may_share_a_lock(tmp_path):
    loader = load(Noted(N, tmp_path), 2)
    assert ids(loader) == ids(load(Numbers(N), 0))
    makers = [(tmp_path / str(index)).read_text() for index in (1, 2)]
    assert makers[0] != makers[1]


def test_fewer_examples_than_workers_and_none():
    loader = load(Numbers(1), 2, factor=1)
    assert ids(loader) == [[0]]
    order = [0]
    loader = load(Numbers(1), 2, factor=1, sampler=order)
    assert ids(loader) == [[0]]
    order.clear()
    with pytest.warns(UserWarning, match="yields nothing in epoch 1"):
        assert ids(loader) == []
    order.append(0)
    assert ids(loader) == [[0]]


def test_tensors_come_back_as_they_were():
    torch = pytest.importorskip("torch")

    import echobuf.torch

    loader = echobuf.torch.EchoLoader(Tensors(), num_workers=1, **KWARGS)
    for batch in loader:
        assert batch.x.dtype == torch.bfloat16
        assert torch.equal(batch.x, Tensors().x[batch.y])


def test_the_byte_order_of_another_machine_is_kept():
    batches = list(load(Foreign(N), 1))
    assert {batch["x"].dtype.str for batch in batches} == {">i4"}
    assert ids(batches) == ids(load(Foreign(N), 0))


def test_get_worker_info_works_in_workers():
    pytest.importorskip("torch")
    from torch_data import Told, tell

    loader = load(Told(8), 2, worker_init_fn=tell)
    told = {tuple(row) for batch in loader for row in batch["x"].tolist()}
    # The first example, which is the trainer's, is made again by a worker.
    assert told
    assert told <= {(0, 2, 0), (1, 2, 10)}


def test_random_numbers_are_each_workers_own_and_follow_from_the_seed():
    def drawn(workers, seed):
        loader = load(Random(N), workers, seed=seed)
        return {row.tobytes() for batch in loader for row in batch["x"]}

    once, other = drawn(2, 1), drawn(2, 2)
    assert len(once) == len(other) == N  # no two alike
    assert not once & other
    assert drawn(2, 1) == once
    assert drawn(3, 1) == drawn(3, 1)


def test_workers_make_items_in_turn_however_long_each_takes():
    n, workers = 60, 3
    loader = load(Uneven(n), workers, factor=1)
    for _ in range(2):
        made_by = np.zeros(n, np.int64)
        for batch in loader:
            made_by[batch["id"]] = batch["process"]
        assert len(set(made_by[:workers])) == workers
        assert made_by.tolist() == np.resize(made_by[:workers], n).tolist()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_sampler_that_gives_one_epoch_gives_no_second_one(workers):
    loader = load(Numbers(8), workers, sampler=iter([1, 2, 3]))
    assert sorted(np.concatenate(ids(loader))) == [1, 1, 2, 2, 3, 3]
    with pytest.raises(echobuf.UpstreamError, match=r"`sampler`.*one epoch"):
        ids(loader)


def test_no_more_is_asked_of_a_sampler_than_is_soon_made():
    """It may be endless."""
    asked = itertools.count()

    class Sampler:
        def __iter__(self):
            return (next(asked) % N for _ in range(10**6))

    epoch = iter(load(Numbers(N), 1, sampler=Sampler()))
    next(epoch)
    assert next(asked) < 1000


class Endless:
    """It has a length, and makes examples beyond it."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return np.int64(index)


def test_a_map_style_dataset_is_as_long_as_it_says():
    loader = echobuf.EchoLoader(Endless(), **KWARGS)
    assert sorted(np.concatenate(list(loader))) == sorted([*range(8)] * 2)


def test_upstream_ends_when_its_last_example_is_there():
    loader = load(Numbers(12), 1)
    ids(loader)
    assert loader.stats().fresh == 12
    assert loader.stats().t_upstream_s > 0


def test_stats_count_what_is_made(tmp_path):
    go_on = tmp_path / "go on"
    loader = load(Troubled(1000, UntilThere(go_on), 12), 1, window=64)
    epoch = iter(loader)
    until(lambda: loader.stats().fresh == 12)
    go_on.touch()
    assert len(ids(epoch)) == 500
    assert loader.stats().fresh == 1000


def test_upstream_time_counts_while_workers_are_busy():
    """Count it even while no example can be submitted, as the trainer is slower."""
    loader = load(Sleepy(100, 0.004), 2)
    for _ in loader:
        time.sleep(0.015)
    # Two examples at a time, at the most; those under way at the first count in part.
    assert loader.stats().t_upstream_s > 0.9 * 0.004 / 2


@pytest.mark.parametrize("overlap", [False, True])
def test_the_dataset_of_each_worker_is_told_the_epoch(overlap):
    """Also of one that is started again; one that is told nothing stays as it was."""
    loaders = [load(Epochs(40), workers, overlap_epochs=overlap) for workers in (0, 2)]
    for told in (None, None, 3, None, 0):
        epochs = []
        for loader in loaders:
            if told is not None:
                loader.set_epoch(told)
            batches = list(loader)
            epochs.append([batch["epoch"].tolist() for batch in batches])
            kill_one()
        assert epochs[0] == epochs[1]
        assert told is None or {told} == {each for one in epochs[0] for each in one}


def kill_one():
    for process in multiprocessing.active_children()[:1]:
        process.kill()
        process.join()
