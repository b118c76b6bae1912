"""Regressions: each of these has gone wrong once in a server or its jobs."""

import contextlib
import fcntl
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from serve_data import NAME, GatedServer, Job, Numbers, close_at_gate, counts_of, ids_of

import echobuf.serve.server
from echobuf import EchoLoader, OptionError, UpstreamError, serve
from echobuf.serve import address, client
from helpers import until

KWARGS = {"window": 8, "batch_size": 4, "factor": 2}


def test_an_epoch_that_a_closed_server_cut_off_does_not_end():
    upstream = Numbers(1000)
    server = serve.Server(upstream, NAME, window=8)
    with serve.attach(NAME) as attached:
        epoch = iter(EchoLoader(attached, **KWARGS))
        next(epoch)
        until(lambda: upstream.made >= 24)
        server.close()
        with pytest.raises(UpstreamError, match="the server was closed"):
            list(epoch)


def test_a_server_that_is_closed_after_its_last_epoch():
    server = serve.Server(Numbers(20), NAME, window=16, epochs=1)
    with serve.attach(NAME) as attached:
        loader = EchoLoader(attached, **KWARGS)
        epoch = iter(loader)
        next(epoch)
        assert server.wait(60)
        server.close()
        list(epoch)
        with pytest.raises(UpstreamError, match="all of its epochs"):
            next(iter(loader))


def test_a_dropped_loader_does_not_hold_up_other_jobs():
    upstream = Numbers(300)
    with serve.Server(upstream, NAME, window=8, jobs=2, epochs=2):
        other = Job(2, KWARGS)
        attached = serve.attach(NAME)
        loader = EchoLoader(attached, **KWARGS)
        next(iter(loader))
        del loader  # and not what is attached
        gc.collect()
        for epoch in other.end():
            assert counts_of(epoch, 300) == [2] * 300
        assert attached.name == NAME
        with pytest.raises(OptionError, match="another loader"):
            EchoLoader(attached, **KWARGS)
        attached.close()


def test_an_iterator_outlives_its_loader():
    with serve.Server(Numbers(50), NAME, window=8, epochs=1):
        epoch = iter(EchoLoader(serve.attach(NAME), **KWARGS))
        gc.collect()
        assert counts_of([ids_of(batch) for batch in epoch], 50) == [2] * 50


def test_nothing_is_drawn_once_it_is_left():
    with serve.Server(Numbers(300), NAME, window=8):
        with serve.attach(NAME) as attached:
            epoch = iter(EchoLoader(attached, **KWARGS))  # outlives its loader
            next(epoch)
            gc.collect()
        with pytest.raises(UpstreamError, match="was left"):
            next(epoch)


def test_a_loader_that_was_refused_has_taken_nothing():
    server = serve.Server(Numbers(50), NAME, window=8, epochs=1)
    with server, serve.attach(NAME) as attached:
        with pytest.raises(OptionError, match="`window`"):
            EchoLoader(attached, **{**KWARGS, "window": 0})
        gc.collect()
        loader = EchoLoader(attached, **KWARGS)
        assert sum(len(batch["id"]) for batch in loader) == 100


def test_a_job_that_left_between_two_servers_has_no_seat():
    go_on = threading.Event()
    upstream = Numbers(300, lambda i: i < 40 or go_on.wait(60))
    server = serve.Server(upstream, NAME, window=8, jobs=2, lease=2.0)
    stays = Job(1, KWARGS)
    attached = serve.attach(NAME)
    loader = EchoLoader(attached, **KWARGS)
    epoch = iter(loader)
    next(epoch)
    until(lambda: upstream.made >= 24)
    close_at_gate(server, go_on, restarting=True)
    attached.close()  # what it has of the slots lives on
    with serve.Server(Numbers(300), NAME, window=8, epochs=1, lease=2.0):
        assert counts_of(stays.end()[0], 300) == [2] * 300
    del epoch


@pytest.fixture
def impatient(monkeypatch):
    """Let servers wait for jobs to reconnect for a moment only, with a long lease."""
    monkeypatch.setattr(echobuf.serve.server, "_RESUME_S", -9.8)


def test_jobs_of_a_server_before_the_last_are_not_adopted(impatient):
    place = address.base_path(NAME)
    address.JobMarker(place).note("00" * 16)  # another server's
    gated = GatedServer()
    job = Job(1, KWARGS, reconnect=60.0)
    gated.close(restarting=True)
    address.JobMarker(place).note("00" * 16)
    with serve.Server(Numbers(100), NAME, window=8, epochs=1):
        with pytest.raises(UpstreamError, match="began anew"):
            job.end()
        (epoch,) = Job(1, KWARGS).end()
        assert counts_of(epoch, 100) == [2] * 100


def test_a_job_that_reconnects_after_its_lease_is_dropped(impatient, monkeypatch):
    resume, may_come = client.resume, threading.Event()

    def late(*arguments):
        if not may_come.is_set():
            raise ConnectionRefusedError
        return resume(*arguments)

    monkeypatch.setattr(client, "resume", late)
    gated = GatedServer()
    job = Job(1, KWARGS)
    gated.close(restarting=True)
    with serve.Server(Numbers(100), NAME, window=8):
        may_come.set()
        with pytest.raises(UpstreamError, match="began anew"):
            job.end()


def test_two_jobs_reconnect_at_the_same_time(monkeypatch):
    dup, both = os.dup, threading.Barrier(2)

    def slow(file):
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(1)  # for the other one, if it is let in meanwhile
        return dup(file)

    gated = GatedServer(jobs=2)
    jobs = [Job(1, KWARGS) for _ in range(2)]
    gated.close(restarting=True)
    monkeypatch.setattr(os, "dup", slow)
    with serve.Server(Numbers(100), NAME, window=8, epochs=1):
        for job in jobs:
            assert counts_of(job.end()[0], 100) == [2] * 100


def test_a_job_that_leaves_does_not_end_the_wait_for_the_others(monkeypatch):
    resume, may_come = client.resume, threading.Event()

    def late(name, message, files):
        if message["job"] == "late" and not may_come.is_set():
            raise ConnectionRefusedError
        return resume(name, message, files)

    monkeypatch.setattr(client, "resume", late)
    go_on = [threading.Event() for _ in range(2)]
    upstreams = [
        Numbers(100, lambda i, end=end, go_on=go_on: i < end or go_on.wait(60))
        for end, go_on in zip((40, 60), go_on, strict=True)
    ]
    server = serve.Server(upstreams[0], NAME, window=8, jobs=2)
    job = Job(1, KWARGS, job="late")
    first = serve.attach(NAME)
    until(lambda: upstreams[0].made > 8)
    close_at_gate(server, go_on[0], restarting=True)
    server = serve.Server(upstreams[1], NAME, window=8)
    first.close()
    until(lambda: [each.job for each in serve.status(NAME).jobs] == ["?"])
    close_at_gate(server, go_on[1], restarting=True)
    may_come.set()
    with serve.Server(Numbers(100), NAME, window=8, epochs=1):
        assert counts_of(job.end()[0], 100) == [2] * 100


def test_a_last_epoch_that_ends_as_its_job_comes_leaves_nothing(monkeypatch):
    note = address.JobMarker.note

    def slow(left, session):
        server.wait(0.3)  # it may be over by then
        note(left, session)

    monkeypatch.setattr(address.JobMarker, "note", slow)
    server = serve.Server(Numbers(1), NAME, window=8, epochs=1)
    with server, serve.attach(NAME):
        assert server.wait(60)
        assert address.JobMarker(address.base_path(NAME)).read() is None


def test_a_server_that_is_killed_as_it_notes_its_jobs(monkeypatch):
    left = address.JobMarker(address.base_path(NAME))
    left.note("00" * 16)
    write = Path.write_text

    def half(path, text):
        write(path, text[:8])
        raise SystemExit

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(SystemExit):
        left.note("11" * 16)
    assert left.read() == "00" * 16


def test_listing_servers_does_not_block_their_names(monkeypatch):
    serve.Server(Numbers(3), NAME, window=8).close()
    looking = os.open(address.folder() / f"{NAME}.lock", os.O_RDWR)
    fcntl.flock(looking, fcntl.LOCK_SH)  # as whoever looks, for a moment
    monkeypatch.setattr(time, "sleep", lambda _: os.close(looking))
    address.Lock(address.base_path(NAME)).release()


SERVER = """
import os, sys, threading
sys.path.append({here!r})
from echobuf import serve
from serve_data import NAME, Numbers
upstream = Numbers(300, lambda i: i < 150 or threading.Event().wait())
server = serve.Server(upstream, NAME, window=8)
child = os.fork()
if child == 0:
    sys.stdin.readline()
    os._exit(0)
print(child, flush=True)
server.wait()
"""


def test_a_child_of_a_server_that_was_killed_keeps_nobody_waiting():
    program = subprocess.Popen(
        [sys.executable, "-c", SERVER.format(here=os.path.dirname(__file__))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    program.stdout.readline()
    job = Job(1, KWARGS, reconnect=30.0)
    try:
        until(lambda: serve.status(NAME).published == 150)
        program.send_signal(signal.SIGKILL)
        program.wait()
        # The name is free, and the job knows that its server is gone.
        with serve.Server(Numbers(300), NAME, window=8, epochs=1):
            assert counts_of(job.end()[0], 300) == [2] * 300
    finally:
        program.stdin.write("\n")
        program.communicate()


def test_descriptors_go_no_further():
    with serve.Server(Numbers(3), NAME, window=8):
        before = set(os.listdir("/proc/self/fd"))
        with serve.attach(NAME):
            for each in set(os.listdir("/proc/self/fd")) - before:
                if os.path.exists(f"/proc/self/fd/{each}"):
                    assert not os.get_inheritable(int(each))
