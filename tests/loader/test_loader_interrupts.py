"""Ctrl-C wherever it may come while an epoch begins, also one that is only ahead."""

import os
import signal
import threading
import time
from collections import Counter
from contextlib import suppress

import numpy as np
import pytest

import echobuf
import echobuf.loader.loader
from echobuf import CapacityError, ClosedError, serve
from echobuf.loader.epochs import Epochs
from echobuf.resources import DaemonThread, Signal
from echobuf.serve.reader import ServerReader
from helpers import WAIT_S, Worker, until
from interrupt_at import Interrupt
from test_loader import Numbers

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

N, FACTOR = 40, 2
KWARGS = {"batch_size": 4, "window": 8, "factor": FACTOR}
PLACES = (
    "loader/epochs.py",
    "loader/starter.py",
    "loader/thread.py",
    "loader/caller_context.py",
    "loader/readers.py",
    "serve/reader.py",
    "contextlib.py",
)


def counts(loader):
    return Counter(number for batch in loader for number in batch["id"].tolist())


WHOLE = Counter(dict.fromkeys(range(N), FACTOR))


class InterruptedEpochs(Epochs):
    """Epochs of a loader interrupted while it begins one ahead.

    Not elsewhere: a batch that was drawn when Ctrl-C comes is lost to its loop.
    """

    interrupt = None

    def begin_early(self):
        if self.interrupt is None:
            return super().begin_early()
        with suppress(KeyboardInterrupt), self.interrupt:
            return super().begin_early()
        return False


def check_begun_ahead(upstream, monkeypatch, step=1):
    made = []

    def make(*args, **kwargs):
        made.append(InterruptedEpochs(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(echobuf.loader.loader, "Epochs", make)
    loader = echobuf.EchoLoader(upstream, overlap_epochs=True, **KWARGS)
    (epochs,) = made
    at, was_raised = 0, True
    while was_raised:
        epochs.interrupt = Interrupt(at, PLACES)
        assert counts(loader) == WHOLE, at
        at, was_raised = at + step, epochs.interrupt.was_raised
        epochs.interrupt = None
        assert counts(loader) == WHOLE, at
    assert at > 50
    loader.close()


def test_an_epoch_that_is_begun_ahead(monkeypatch):
    check_begun_ahead(Numbers(N), monkeypatch)


def check_begun(upstream, monkeypatch, step=1):
    loader = echobuf.EchoLoader(upstream, **KWARGS)
    at, was_raised = 0, True
    while was_raised:
        interrupt = Interrupt(at, PLACES)
        with suppress(KeyboardInterrupt), interrupt:
            iter(loader)
        assert counts(loader) == WHOLE, at
        at, was_raised = at + step, interrupt.was_raised
    assert at > 50
    loader.close()


def test_an_epoch_that_begins(monkeypatch):
    check_begun(Numbers(N), monkeypatch)


@pytest.mark.parametrize("check", [check_begun, check_begun_ahead])
def test_epochs_of_a_server(check, monkeypatch):
    with (
        serve.Server(Numbers(N), "interrupted", window=8, lag=4),
        serve.attach("interrupted") as attached,
    ):
        check(attached, monkeypatch, step=7)  # each is an epoch or two of the server


def test_a_thread_of_a_server_that_is_stopped_again_gives_up_no_other_epoch(
    monkeypatch,
):
    made, feeders, feed = [], [], ServerReader.feed

    def make(*args, **kwargs):
        made.append(Epochs(*args, **kwargs))
        return made[-1]

    def note(*args):
        feeders.append(feed(*args))
        return feeders[-1]

    monkeypatch.setattr(echobuf.loader.loader, "Epochs", make)
    monkeypatch.setattr(ServerReader, "feed", note)

    def drawn_before_the_next(epoch):
        """Draw until all is in the window, and begin the next epoch."""
        batches = FACTOR * N // KWARGS["batch_size"] - 1
        drawn = [next(epoch)["id"] for _ in range(batches)]
        until(made[0].begin_early)
        return drawn

    with (
        serve.Server(Numbers(N), "stopped-again", window=8, lag=4),
        serve.attach("stopped-again") as attached,
        echobuf.EchoLoader(attached, overlap_epochs=True, **KWARGS) as loader,
    ):
        epoch = iter(loader)
        drawn_before_the_next(epoch)
        loader.set_epoch(5)  # which gives up what was begun
        for _ in range(3):
            epoch = iter(loader)
            drawn = drawn_before_the_next(epoch)
            for feeder in feeders:
                if feeder.is_stopped():
                    feeder.stop()
            drawn += [batch["id"] for batch in epoch]
            assert Counter(np.concatenate(drawn).tolist()) == WHOLE


def test_a_thread_that_cannot_be_started(monkeypatch):
    start, left = DaemonThread.start, ["can't start new thread"]

    def refuse_one(thread):
        if left:
            raise RuntimeError(left.pop())
        start(thread)

    monkeypatch.setattr(DaemonThread, "start", refuse_one)
    with echobuf.EchoLoader(Numbers(N), **KWARGS) as loader:
        with pytest.raises(CapacityError, match="needs a thread"):
            iter(loader)
        assert counts(loader) == WHOLE


class Stuck:
    """An upstream that is stuck in the first or a later `next`."""

    def __init__(self, at):
        self.at, self.gate, self.is_called = at, threading.Event(), threading.Event()

    def __iter__(self):
        for number in range(N):
            if number == self.at:
                self.is_called.set()
                assert self.gate.wait(WAIT_S)
            yield np.int64(number)


@pytest.mark.parametrize("at", [0, 1, 20])
@pytest.mark.parametrize("kwargs", [{}, {"overlap_epochs": True}, {"prefetch": 2}])
def test_ctrl_c_leaves_a_block_whose_upstream_is_stuck(at, kwargs):
    upstream = Stuck(at)

    def interrupt():
        assert upstream.is_called.wait(WAIT_S)
        time.sleep(0.1)  # so that the loop waits: a finalizer swallows an interrupt
        os.kill(os.getpid(), signal.SIGINT)

    interrupting = Worker(interrupt)
    with (
        pytest.raises(KeyboardInterrupt),
        echobuf.EchoLoader(upstream, **KWARGS, **kwargs) as loader,
    ):
        list(loader)
    interrupting.result()
    with pytest.raises(ClosedError):
        iter(loader)
    assert any("echobuf-feeder" in each.name for each in threading.enumerate())
    upstream.gate.set()  # only now: and the thread goes, though there is the loader


def test_a_first_item_that_was_interrupted_is_waited_for_by_the_next_epoch():
    upstream = Stuck(0)
    loader = echobuf.EchoLoader(upstream, **KWARGS)
    signals = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    signals.start()
    with pytest.raises(KeyboardInterrupt):
        iter(loader)
    signals.join()
    upstream.gate.set()
    assert sum(len(batch) for batch in loader) == FACTOR * N


def test_a_close_that_is_interrupted_goes_on():
    gate, is_read = threading.Event(), threading.Event()
    begun = 2 * KWARGS["window"]  # some batches can be drawn of these

    class Slow(Numbers):
        def __iter__(self):
            for number, item in enumerate(super().__iter__()):
                if number == begun:
                    is_read.set()
                    assert gate.wait(WAIT_S)
                yield item

    loader = echobuf.EchoLoader(Slow(N), **KWARGS)
    epoch = iter(loader)
    # What the window holds of these is drawn a first time.
    for _ in range(begun // KWARGS["batch_size"]):
        next(epoch)
    assert is_read.wait(WAIT_S)
    signals = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    signals.start()
    with pytest.raises(KeyboardInterrupt):
        loader.close()
    signals.join()
    again = Worker(loader.close)
    until(again.is_alive)
    again.join(0.1)
    assert again.is_alive()  # it waits for upstream's call, as the first did
    gate.set()
    again.result()
    with pytest.raises(ClosedError):
        next(epoch)


def interrupting(monkeypatch):
    """Raise one `KeyboardInterrupt` where a lock of `threading` has just been taken."""
    enter, left = threading.Condition.__enter__, [KeyboardInterrupt]

    def interrupted(condition):
        result = enter(condition)
        # `current_thread()` takes such a lock itself in a thread that begins.
        if left and threading.get_ident() == threading.main_thread().ident:
            raise left.pop()
        return result

    monkeypatch.setattr(threading.Condition, "__enter__", interrupted)
    return left


def test_a_thread_whose_join_is_interrupted(monkeypatch):
    gate = threading.Event()
    thread = DaemonThread(gate.wait, name="test")
    thread.start()
    left = interrupting(monkeypatch)
    with suppress(KeyboardInterrupt):
        thread.join(0.01)
    left.clear()
    gate.set()
    assert Worker(thread.join).result() is None
    assert not thread.is_alive()


def test_a_thread_whose_start_is_interrupted(monkeypatch):
    thread = DaemonThread(lambda: None, name="test")
    interrupting(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        thread.start()
    # It waits for the lock that was never given back, or was quicker.
    until(lambda: not thread.is_alive())
    assert Worker(thread.join).result() is None
    started = thread._started  # noqa: SLF001 - Python's
    started._cond._lock.release()  # noqa: SLF001 - Python's
    until(started.is_set)


def test_a_signal_has_any_number_of_waiters():
    signals = Signal()
    assert not signals.wait(0)
    assert not signals.wait(0.01)
    waiters = [Worker(signals.wait) for _ in range(5)]
    signals.set()
    signals.set()
    assert [waiter.result() for waiter in waiters] == [True] * 5
    assert signals.wait(0)
    assert signals.is_set()
