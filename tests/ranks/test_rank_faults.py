"""Faults of ranks: arguments, upstreams, iterators, Ctrl-C."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

pytest.importorskip("torch")

import torch

import echobuf
from echobuf.ranks.store import RankStore
from echobuf.torch import EchoLoader
from helpers import until
from ranks import rank_threads
from ranks.rank_loaders import ids, make, shard
from ranks.rank_threads import RankThreads


@pytest.fixture(autouse=True)
def ranks_are_threads(monkeypatch):
    rank_threads.patch(monkeypatch)


def test_different_arguments_raise_before_the_first_batch():
    def rank_does(rank):
        loader = make(shard(0, 1, 40), "pad", window=16 + rank // 2)
        next(iter(loader))

    for error in RankThreads(3).run(rank_does):
        assert isinstance(error, echobuf.OptionError)
        assert str(error).startswith(
            "`window` differs between ranks (rank 0: 16, rank 1: 16, rank 2: 17)"
        )


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ([{"factor": 2}, {"factor": "auto"}], "factor"),
        ([{"batch_size": 4}, {"batch_size": 8}], "batch_size"),
        ([{"drop_last": True}, {}], "drop_last"),
    ],
)
def test_each_argument_is_compared(arguments, name):
    for error in RankThreads(2).run(
        lambda r: ids(make(shard(0, 1, 40), "drop", **arguments[r]))
    ):
        assert isinstance(error, echobuf.OptionError)
        assert f"`{name}` differs between ranks" in str(error)


def test_seeds_may_differ():
    def rank_does(rank):
        return ids(make(shard(0, 1, 40), "drop", seed=rank))

    one, two = RankThreads(2).run(rank_does)
    assert len(one) == len(two)
    assert one != two


def test_different_uneven_is_an_error():
    for error in RankThreads(2).run(
        lambda rank: ids(make(shard(0, 1, 40), ["drop", "pad"][rank]))
    ):
        assert "`uneven` differs between ranks (rank 0: 'drop', rank 1: 'pad')" in str(
            error
        )


def test_different_specs_are_an_error():
    def rank_does(rank):
        ids(make([{"id": torch.zeros(2 + rank)}], "drop"))

    for error in RankThreads(2).run(rank_does):
        assert "`spec` differs between ranks" in str(error)


class FailsOnce:
    def __init__(self, rank, where):
        self.fails, self.where = rank == 1, where

    def __iter__(self):
        if self.fails and self.where == "iter":
            self.fails = False
            raise OSError("the disk is gone")
        return self._examples()

    def _examples(self):
        for i in range(80):
            if self.fails and self.where == i:
                self.fails = False
                raise OSError("the disk is gone")
            yield {"id": torch.tensor(i)}


@pytest.mark.parametrize("where", ["iter", 0, 1, 40, 79])
@pytest.mark.parametrize("uneven", ["drop", "pad"])
def test_a_failing_upstream_ends_the_epoch_of_all_ranks(where, uneven):
    def rank_does(rank):
        loader = make(FailsOnce(rank, where), uneven)
        batches = []
        with pytest.raises(echobuf.UpstreamError) as caught:
            batches.extend(batch["id"].tolist() for batch in loader)
        if rank == 1:
            assert isinstance(caught.value.__cause__, OSError)
        else:
            assert "rank 1 failed: upstream failed: OSError('the disk" in str(
                caught.value
            )
        # The next epoch is the same one for all, and whole.
        return len(batches), loader.state_dict()["epoch"], len(ids(loader))

    results = RankThreads(3).run(rank_does)
    assert len(set(results)) == 1, results
    taken, epoch, following = results[0]
    assert following == 40
    if where in ("iter", 0):
        assert (taken, epoch) == (0, 0), "nothing of the epoch has happened"


def test_a_first_item_that_cannot_be_stored_fails_all_ranks():
    def rank_does(rank):
        ids(make([{"id": object()} if rank else {"id": torch.zeros(1)}], "drop"))

    good, bad = RankThreads(2).run(rank_does)
    assert isinstance(bad, echobuf.SpecError)
    assert isinstance(good, echobuf.UpstreamError)
    assert "rank 1 failed: " in str(good)


def test_different_epochs_are_an_error():
    def rank_does(rank):
        loader = make(shard(0, 1, 40), "drop")
        loader.set_epoch(rank)
        with pytest.raises(echobuf.OptionError) as caught:
            ids(loader)
        loader.set_epoch(3)
        return str(caught.value), ids(loader)

    one, two = RankThreads(2).run(rank_does)
    assert "in different epochs (rank 0: 0, rank 1: 1); call `set_epoch`" in one[0]
    assert one == two


def test_states_of_different_batches_are_an_error():
    def rank_does(rank):
        loader = make(shard(0, 1, 40), "drop")
        states = []
        for _ in loader:
            states.append(loader.state_dict())
        loader.load_state_dict(states[4 + rank])
        next(iter(loader))

    for error in RankThreads(2).run(rank_does):
        assert isinstance(error, echobuf.StateError)
        assert "different batches of the epoch (rank 0: 5, rank 1: 6)" in str(error)


def test_a_second_iterator_closes_the_first():
    def rank_does(rank):
        loader = make(shard(0, 1, 40), "drop")
        first = iter(loader)
        next(first)
        second = iter(loader)
        with pytest.raises(echobuf.ClosedError, match="one iterator at a time"):
            next(first)
        return len(list(second))

    assert RankThreads(2).run(rank_does) == [20, 20]


def test_a_state_loaded_inside_an_epoch_ends_the_epoch():
    def rank_does(rank):
        loader = make(shard(0, 1, 40), "drop")
        state = loader.state_dict()
        first = iter(loader)
        one = next(first)["id"].tolist()
        loader.load_state_dict(state)
        with pytest.raises(echobuf.ClosedError):
            next(first)
        return one == ids(loader)[0]

    assert RankThreads(2).run(rank_does) == [True, True]


def test_an_iterator_dropped_before_its_first_batch_changes_nothing():
    def rank_does(rank):
        loader = make(shard(0, 1, 40), "drop")
        for _ in range(rank):
            iter(loader)  # a different number on each rank
        iterator = iter(loader)
        loader.set_epoch(3)
        batches = [batch["id"].tolist() for batch in iterator]
        assert loader.state_dict()["epoch"] == 4
        return batches

    def alone():
        loader = make(shard(0, 1, 40), None)
        loader.set_epoch(3)
        return ids(loader)

    assert RankThreads(3).run(rank_does) == [alone()] * 3


def test_after_ctrl_c_in_the_rendezvous_the_epoch_can_begin(monkeypatch):
    wait_for, interrupted = RankStore.wait_for, []

    def interrupt_first(self, *arguments):
        if self.rank == 0 and not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        return wait_for(self, *arguments)

    monkeypatch.setattr(RankStore, "wait_for", interrupt_first)

    def rank_does(rank):
        batches = iter(make(shard(0, 1, 40), "drop"))
        if rank == 0:
            with pytest.raises(KeyboardInterrupt):
                next(batches)
        return len(list(batches))

    assert RankThreads(2).run(rank_does) == [20, 20]


def test_errors_reference_no_frames():
    def rank_does(rank):
        loader = make(FailsOnce(rank, 40), "drop")
        batches = iter(loader)
        for _ in range(2):  # the second one is the first one again
            with pytest.raises(echobuf.UpstreamError):
                list(batches)
        dropped = weakref.ref(batches)
        del batches
        return dropped() is None

    gc.disable()
    try:
        assert RankThreads(2).run(rank_does) == [True, True]
    finally:
        gc.enable()


def test_an_unknown_length_on_one_rank_is_a_type_error():
    def rank_does(rank):
        upstream = shard(0, 1, 40)
        return len(make(iter(upstream) if rank else upstream, "drop"))

    for error in RankThreads(2).run(rank_does):
        assert isinstance(error, TypeError)
        assert str(error).startswith("on rank 1 ")


def test_no_threads_remain_after_an_epoch():
    def rank_does(rank):
        ids(make(shard(0, 1, 40), "drop"))

    def left():
        return [t for t in threading.enumerate() if t.name.startswith("echobuf")]

    # The traceback of a test that has failed keeps the threads of its loaders.
    before = left()
    RankThreads(2).run(rank_does)
    until(lambda: set(left()) <= set(before))


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"uneven": "cut"}, "`uneven` is 'cut'; it must be 'drop', 'pad' or None"),
        ({"group": object()}, "`group` is given, but `uneven` is not"),
        ({"uneven": "pad", "ahead": 0}, "`ahead` is 0"),
    ],
)
def test_arguments_out_of_range_are_refused(more, text):
    with pytest.raises(echobuf.OptionError, match=text):
        EchoLoader([torch.zeros(1)], batch_size=1, window=1, **more)


def test_uneven_without_a_process_group_is_refused(monkeypatch):
    monkeypatch.undo()
    with pytest.raises(echobuf.OptionError, match="there is no process group"):
        EchoLoader([torch.zeros(1)], batch_size=1, window=1, uneven="drop")
