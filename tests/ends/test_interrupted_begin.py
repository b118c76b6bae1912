"""Ctrl-C while an epoch begins: what was begun of it ends."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import echobuf
from echobuf.loader import starter
from echobuf.loader.loader import internals_of

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

N = 400


def make(**more):
    return echobuf.EchoLoader(
        [np.int64(i) for i in range(N)], batch_size=4, window=64, factor=2, **more
    )


def check_epoch(loader):
    counts = np.bincount(np.concatenate(list(loader)), minlength=N)
    assert counts.tolist() == [2] * N


@pytest.fixture
def interrupt(monkeypatch):
    """Make the thread of the next epoch that begins start, and be interrupted."""

    def arm():
        class InterruptedFeed(before):
            def __init__(self, *args, **kwargs):
                monkeypatch.setattr(starter, "EpochFeed", before)
                raise KeyboardInterrupt

        monkeypatch.setattr(starter, "EpochFeed", InterruptedFeed)

    before = starter.EpochFeed
    return arm


@pytest.mark.parametrize("overlap", [False, True])
def test_the_next_epoch_is_whole(interrupt, overlap):
    loader = make(overlap_epochs=overlap)
    interrupt()
    with pytest.raises(KeyboardInterrupt):
        iter(loader)
    check_epoch(loader)


def test_its_thread_ends_where_the_loader_is_dropped(interrupt):
    loader = make()
    interrupt()
    with pytest.raises(KeyboardInterrupt):
        iter(loader)
    del loader  # the fixture waits for the thread


@pytest.mark.parametrize("goes_on", [False, True])
def test_an_epoch_that_begins_ahead(interrupt, goes_on):
    loader = make(overlap_epochs=True)
    epoch = iter(loader)
    served = [next(epoch)]
    interrupt()
    with pytest.raises(KeyboardInterrupt):
        served.extend(epoch)
    if goes_on:  # the batch that was drawn before the interrupt comes first
        while (batch := next(epoch, None)) is not None:
            served.append(batch)
    else:
        del epoch
    for _ in range(2):
        check_epoch(loader)


def test_an_epoch_that_was_begun_ahead(monkeypatch):
    loader = make(overlap_epochs=True)
    check_epoch(loader)

    def interrupted(*args):
        monkeypatch.undo()
        raise KeyboardInterrupt

    engine = internals_of(loader).starter.buffer
    monkeypatch.setattr(engine, "go_ahead", interrupted)
    with contextlib.suppress(KeyboardInterrupt):
        iter(loader)
    for _ in range(2):
        check_epoch(loader)
