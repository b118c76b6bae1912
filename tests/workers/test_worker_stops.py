"""Epochs left early: no unwritten slot is served, and no further item is asked for."""

import threading

import numpy as np
import pytest

import echobuf
import worker_data
from echobuf.loader.feeder import ItemFeeder
from echobuf.loader.thread import UpstreamThread
from echobuf.loader.upstream import UpstreamStart
from echobuf.loader_buffer import LoaderBuffer
from helpers import Worker, example, make, until
from worker_data import Numbers, Troubled, UntilThere, ids, load

N = 400


class SlowEvent(threading.Event):
    """A signal that runs `then` after it is set, before `set` returns."""

    def __init__(self, then):
        super().__init__()
        self.then = then

    def set(self):
        super().set()
        self.then()


def test_revoked_examples_are_not_served_while_a_loop_is_being_left(tmp_path):
    go_on = tmp_path / "go on"
    loader = load(Troubled(N, UntilThere(go_on), 100), 1)
    served = []

    def draw():
        for batch in epoch:
            served.extend(ids([batch])[0])

    epoch = iter(loader)
    served += ids([next(epoch)])[0]
    feeder = epoch.start().feeder

    def settle():
        go_on.touch()
        until(lambda: not feeder.is_alive())

    feeder.stopped = SlowEvent(settle)
    consumer = Worker(draw)
    until(lambda: loader.stats().fresh == 100)
    feeder.stop()
    with pytest.raises(echobuf.ClosedError, match="was ended while"):
        consumer.result()
    counts = np.bincount(served)
    assert counts.max() <= 2
    assert len(counts) <= 101


def test_submitted_examples_are_served_though_the_feeder_is_stopped():
    loader, alone = load(Numbers(8), 1), load(Numbers(8), 0)
    epoch = iter(loader)
    served = [next(epoch)]
    feeder = epoch.start().feeder
    until(lambda: not feeder.is_alive())
    feeder.stop()
    assert ids([*served, *epoch]) == ids(alone)


@pytest.mark.parametrize("died", [worker_data.leave, worker_data.crash])
def test_workers_may_die_as_often_in_each_epoch(tmp_path, died):
    flag = tmp_path / "flag"
    loader = load(
        Troubled(40, worker_data.Once(flag, died), 20, flag), 1, max_restarts=1
    )
    for epoch in range(3):
        flag.touch()
        alone = load(Numbers(40), 0)
        alone.set_epoch(epoch)
        assert ids(loader) == ids(alone)
        assert not flag.exists()


class Gated:
    """An iterator that waits before its second item; notes how many were asked for."""

    def __init__(self, n):
        self.n = n
        self.asked = 0
        self.go_on = threading.Event()

    def __iter__(self):
        return self

    def __next__(self):
        self.asked += 1
        if self.asked == 2:
            assert self.go_on.wait(60)
        if self.asked > self.n:
            raise StopIteration
        return example(self.asked)


def feed(buffer, items, skipped=0):
    return ItemFeeder(
        buffer,
        UpstreamThread(),
        UpstreamStart(iter(items), example(0)),
        stacked=False,
        decode=None,
        carrier=None,
        first=0,
        read=lambda item: item,
        skipped=skipped,
        snapshots=None,
    )


def test_a_feeder_that_is_stopped_asks_for_nothing_more():
    """Not even where nothing is put, which would fail."""
    items = Gated(1000)
    with make(kind=LoaderBuffer) as buffer:
        feeder = feed(buffer, items, skipped=900)
        until(lambda: items.asked == 2)
        feeder.stop()
        items.go_on.set()
        assert feeder.join(60)
    assert items.asked == 2


def test_a_put_that_is_cut_off_is_no_failure_of_upstreams():
    items = Gated(1000)
    items.go_on.set()
    with make(kind=LoaderBuffer) as buffer:
        feeder = feed(buffer, items)
        until(lambda: buffer.stats().fresh >= 12)
        feeder.end()
        with pytest.raises(echobuf.ClosedError, match="was ended while"):
            buffer.next_batch()


def test_a_feeder_that_ended_unnoticed_is_abandoned_all_the_same():
    """Or who draws would wait for ever."""
    items = Gated(1000)
    with make(kind=LoaderBuffer) as buffer:
        feeder = feed(buffer, items, skipped=900)
        until(lambda: items.asked == 2)
        feeder.stopped.set()  # as if `stop` came no further for a while
        items.go_on.set()
        assert feeder.join(60)
        feeder.stop()
        with pytest.raises(echobuf.ClosedError, match="was ended while"):
            buffer.next_batch(timeout=60)


def test_a_feeder_that_is_stopped_late_leaves_the_next_epoch_alone():
    items = Gated(1000)
    with make(kind=LoaderBuffer) as buffer:
        feeder = feed(buffer, items, skipped=900)
        until(lambda: items.asked == 2)
        feeder.stopped.set()
        items.go_on.set()
        assert feeder.join(60)
        buffer.reset(1)
        feeder.stop()
        buffer.put(example(1))
        buffer.close()
        assert sum(len(batch["id"]) for batch in buffer) == 2
