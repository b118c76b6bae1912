"""Ends that coincide: failures, exits, interrupts, and processes that pause."""

import copy
import gc
import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest
from serve_data import (
    NAME,
    Job,
    Numbers,
    counts_of,
    loop_of,
    ring_of,
    server_thread,
    stopped_of,
)

from echobuf import ClosedError, EchoLoader, OptionError, UpstreamError, serve
from echobuf.loader.loader import internals_of
from echobuf.resources import DaemonThread
from echobuf.serve import address
from echobuf.serve.connection import Connection
from echobuf.testing import simulated_cuda
from helpers import until

KWARGS = {"window": 8, "batch_size": 4, "factor": 2}


class OddError(Exception):
    def __repr__(self):
        raise RuntimeError("no text")

    __str__ = __repr__


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("x" + "\N{SNOWMAN}" * 2000), "x\N{SNOWMAN}"),
        (RuntimeError("xy" + "\N{SNOWMAN}" * 2000), "xy\N{SNOWMAN}"),
        (RuntimeError("b\udce9d"), r"b\\+udce9d"),
        (OddError(), "OddError"),
    ],
)
@pytest.mark.parametrize("epoch", [0, 1])
def test_upstream_may_fail_with_any_text(error, said, epoch):
    class Failing(Numbers):
        def __iter__(self):
            if len(self.epochs) == 2:
                raise error
            return super().__iter__()

    def gate(number):
        if number == 40:
            raise error

    upstream = Failing(100) if epoch else Numbers(100, gate)
    with serve.Server(upstream, NAME, window=8) as server:
        with pytest.raises(UpstreamError, match=said):
            Job(2, KWARGS).end()
        with pytest.raises(UpstreamError, match=said):
            server.wait(60)


def test_a_thread_of_a_job_that_fails_ends_the_epoch(monkeypatch):
    go_on = threading.Event()
    upstream = Numbers(100, lambda i: i < 24 or go_on.wait(60))
    with serve.Server(upstream, NAME, window=8):

        def broken(link, code):
            raise ValueError("torn")

        with monkeypatch.context() as patch:
            patch.setattr(Connection, "raise_for", broken)
            with pytest.raises(UpstreamError, match="torn"):
                Job(1, KWARGS).end()
        go_on.set()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_window_larger_than_the_servers(device):
    with (
        simulated_cuda() as simulation,
        simulation.stream(),
        serve.Server(Numbers(100), NAME, window=8, lag=1000),
        serve.attach(NAME) as attached,
    ):
        loader = EchoLoader(attached, **{**KWARGS, "window": 9}, device=device)
        with pytest.raises(
            OptionError, match=r"`window` is 9, .* windows of 8 at most"
        ):
            next(iter(loader))
        del loader


def test_an_attached_job_refuses_copy_deepcopy_and_pickle():
    with serve.Server(Numbers(10), NAME, window=8), serve.attach(NAME) as attached:
        for call in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(
                TypeError, match=r"cannot be copied or pickled; .* attach there"
            ):
                call(attached)


@pytest.mark.skipif(
    not hasattr(signal, "pthread_kill"), reason="sends itself what Ctrl-C sends"
)
def test_an_interrupted_wait_does_not_end_the_thread():
    go_on = threading.Event()
    upstream = Numbers(100, lambda i: i < 40 or go_on.wait(60))
    server = serve.Server(upstream, NAME, window=8)
    job = Job(1, KWARGS)
    until(lambda: upstream.made == 40)
    main = threading.main_thread().ident
    threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        server.wait(60)
    closing = threading.Thread(target=server.close, kwargs={"restarting": True})
    closing.start()
    assert stopped_of(server).wait(60)
    closing.join(0.3)
    assert closing.is_alive()  # upstream's call has not returned
    assert address.Lock.is_held(address.base_path(NAME))
    go_on.set()
    closing.join(60)
    with serve.Server(Numbers(100), NAME, window=8, epochs=1):
        assert counts_of(job.end()[0], 100) == [2] * 100


@pytest.fixture
def uncaught(monkeypatch):
    """Collect the errors of threads."""
    raised = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    return raised


def interrupted_after(call, called):
    """Interrupt the main thread's first call, once it is done."""

    def interrupted(*args):
        answer = call(*args)
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and not called.is_set():
            called.set()
            raise KeyboardInterrupt
        return answer

    return interrupted


class Interrupted:
    """The core of a server, of which one call is interrupted."""

    def __init__(self, core, call, called):
        self._core = core
        setattr(self, call, interrupted_after(getattr(core, call), called))

    def __getattr__(self, name):
        return getattr(self._core, name)


@pytest.mark.parametrize(
    ("restarting", "call"),
    [
        (False, "finish"),
        *itertools.product([False, True], ["close", "jobs", "release"]),
    ],
)
def test_an_interrupted_close_is_gone_on_with(restarting, call):
    called = threading.Event()

    def gate(number):
        if number >= 40:  # the release waits for upstream
            (stopped_of(server) if call == "release" else called).wait(60)

    server = serve.Server(Numbers(100, gate), NAME, window=8)
    job = Job(1, KWARGS)
    until(lambda: ring_of(server).core.published() == 40)
    core = Interrupted(ring_of(server).core, call, called)
    ring_of(server).core = loop_of(server).ring = core
    with pytest.raises(KeyboardInterrupt):
        server.close(restarting=restarting)
    assert address.Lock.is_held(address.base_path(NAME))
    for _ in range(2):
        server.close(restarting=restarting)
    with serve.Server(Numbers(100), NAME, window=8, epochs=1):
        if restarting:
            assert counts_of(job.end()[0], 100) == [2] * 100
    if not restarting:
        with pytest.raises(UpstreamError, match="the server was closed"):
            job.end()


def test_a_close_that_is_interrupted_while_the_thread_ends(monkeypatch):
    upstream = Numbers(100, lambda i: i < 40 or stopped_of(server).wait(60))
    server = serve.Server(upstream, NAME, window=8)
    job = Job(1, KWARGS)
    until(lambda: ring_of(server).core.published() == 40)
    thread, stopped = server_thread(), stopped_of(server)
    stop = interrupted_after(stopped.set, threading.Event())
    monkeypatch.setattr(stopped, "set", stop)
    with pytest.raises(KeyboardInterrupt):
        server.close()
    until(lambda: not thread.is_alive())
    server.close()
    with pytest.raises(UpstreamError, match="the server was closed"):
        job.end()


def test_a_close_that_is_done_leaves_another_server_alone(monkeypatch):
    server = serve.Server(Numbers(10), NAME, window=8)
    release = interrupted_after(address.Lock.release, threading.Event())
    monkeypatch.setattr(address.Lock, "release", release)
    with pytest.raises(KeyboardInterrupt):
        server.close()
    with serve.Server(Numbers(10), NAME, window=8):
        server.close()
        assert serve.names() == [NAME]


@pytest.mark.parametrize("late", [False, True])
def test_an_interrupted_start_of_the_thread(monkeypatch, uncaught, late):
    started = []

    class InterruptedThread(DaemonThread):
        def start(self):
            started.append(self)
            if not late:
                super().start()
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("echobuf.serve.server.DaemonThread", InterruptedThread)
        with pytest.raises(KeyboardInterrupt):
            serve.Server(Numbers(10), NAME, window=8)
    with serve.Server(Numbers(10), NAME, window=8):
        (thread,) = started
        if late:
            DaemonThread.start(thread)
        until(lambda: not threading.Thread.is_alive(thread))
        assert serve.names() == [NAME]
    assert not uncaught


@pytest.mark.parametrize("kind", [ValueError, UpstreamError])
def test_a_thread_of_a_job_that_fails_after_its_buffer_was_released(
    monkeypatch, uncaught, kind
):
    released, go_on = threading.Event(), threading.Event()

    def broken(link, code):
        assert released.wait(60)
        raise kind("torn")

    upstream = Numbers(100, lambda i: i < 24 or go_on.wait(60))
    with serve.Server(upstream, NAME, window=8), serve.attach(NAME) as attached:
        loader = EchoLoader(attached, **KWARGS)
        monkeypatch.setattr(Connection, "raise_for", broken)
        epoch = iter(loader)
        feeder = epoch.start().feeder
        internals_of(loader).starter.buffer.release()
        released.set()
        until(lambda: not feeder.is_alive())
        monkeypatch.undo()
        go_on.set()
        del epoch, loader
        gc.collect()  # the error has its thread's frames, and those the buffer
    assert not uncaught


def program(text, **names):
    """Start a process; return it, and its first line."""
    here = os.path.dirname(__file__)
    started = subprocess.Popen(
        [sys.executable, "-c", text.format(here=here, **names)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout.readline() == "ready\n"
    return started


SERVER = """
import sys, threading
sys.path.append({here!r})
from echobuf import serve
from serve_data import NAME, Numbers
go_on = threading.Event()
def gate(number):
    if number == 40:
        go_on.wait()
server = serve.Server(Numbers(100, gate), NAME, window=8)
print("ready", flush=True)
sys.stdin.readline()
go_on.set()
"""


def test_an_exit_without_close_is_not_the_end_of_an_epoch():
    server = program(SERVER)
    job = Job(1, KWARGS, timeout=60.0)
    until(lambda: serve.status(NAME).published == 40)
    _, errors = server.communicate("\n", timeout=60)
    assert server.returncode == 0, errors
    with serve.Server(Numbers(100), NAME, window=8, epochs=1):
        assert counts_of(job.end()[0], 100) == [2] * 100


PAUSED = """
import sys
sys.path.append({here!r})
from echobuf import EchoLoader, serve
from serve_data import NAME, Numbers, counts_of, ids_of
print("ready", flush=True)
if {serves}:
    with serve.Server(Numbers(400), NAME, window=8, lease=1.0, jobs=2, epochs=3) as s:
        s.wait()
        sys.stdin.readline()
else:
    attached = serve.attach(NAME, timeout=60.0)
    loader = EchoLoader(
        attached, window=8, batch_size=4, factor=2, overlap_epochs=True
    )
    for _ in range(3):
        assert counts_of([ids_of(batch) for batch in loader], 400) == [2] * 400
"""


@pytest.mark.parametrize("who", ["server", "job"])
def test_a_process_that_pauses(who):
    server = program(PAUSED, serves=True)
    job = program(PAUSED, serves=False)
    here = Job(3, {**KWARGS, "overlap_epochs": True}, timeout=60.0)
    paused = server if who == "server" else job
    until(lambda: here.served)
    for _ in range(3 if who == "job" else 1):
        os.kill(paused.pid, signal.SIGSTOP)
        time.sleep(0.05 if who == "job" else 1.2)  # a job: not longer than its lease
        os.kill(paused.pid, signal.SIGCONT)
    for epoch in here.end():
        assert counts_of(epoch, 400) == [2] * 400
    _, errors = job.communicate(timeout=60)
    assert job.returncode == 0, errors
    _, errors = server.communicate("\n", timeout=60)
    assert server.returncode == 0, errors


def test_a_seat_is_freed_after_its_loader():
    with serve.Server(Numbers(40), NAME, window=8):
        attached = serve.attach(NAME)
        loader = EchoLoader(attached, window=8, batch_size=4, factor=2)
        epoch = iter(loader)
        next(epoch)  # and the buffer lives as long as it
        loader.close()
        attached.close()
        attached.close()
        with pytest.raises(ClosedError):
            next(epoch)
        del epoch
