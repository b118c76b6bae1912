"""Bounds on the distance between jobs, and failures of jobs."""

import threading

import pytest
from serve_data import (
    NAME,
    GatedServer,
    Job,
    Numbers,
    all_of,
    counts_of,
    ids_of,
    server_thread,
)
from serve_kills import main as kill

from echobuf import EchoLoader, UpstreamError, serve
from echobuf.serve import address
from helpers import until

KWARGS = {"window": 8, "batch_size": 4, "factor": 2}


@pytest.mark.parametrize("spilled", [False, True])
@pytest.mark.parametrize("lag", [0, 50])
def test_a_slow_job_holds_the_others_up_at_the_bound(lag, spilled, tmp_path):
    slots = 2 * 8 + lag
    upstream = Numbers(300)
    spill = tmp_path if spilled else None
    with serve.Server(upstream, NAME, window=8, lag=lag, spill=spill, jobs=2, epochs=1):
        fast = Job(1, KWARGS)
        with serve.attach(NAME) as attached:
            slow = iter(EchoLoader(attached, **KWARGS))
            first = ids_of(next(slow))
            until(lambda: serve.status(NAME).published == slots)
            assert upstream.made <= slots + 1  # one is in its hands
            assert max(all_of(fast.served[0] if fast.served else []), default=0) < slots
            assert max(job.held for job in serve.status(NAME).jobs) == slots
            served = [first, *(ids_of(batch) for batch in slow)]
            del slow
        assert counts_of(served, 300) == [2] * 300
        assert counts_of(fast.end()[0], 300) == [2] * 300
    assert not list(tmp_path.iterdir())


def test_a_job_that_leaves_does_not_hold_up_the_others():
    with serve.Server(Numbers(300), NAME, window=8, jobs=2, epochs=1):
        fast = Job(1, KWARGS)
        attached = serve.attach(NAME)
        slow = iter(EchoLoader(attached, **KWARGS))
        next(slow)
        attached.close()
        assert counts_of(fast.end()[0], 300) == [2] * 300
        with pytest.raises(UpstreamError, match="left"):
            list(slow)


def test_upstream_ends_when_the_last_job_has_gone():
    upstream = Numbers(10_000)
    with serve.Server(upstream, NAME, window=8, epochs=2) as server:
        with serve.attach(NAME) as attached:
            next(iter(EchoLoader(attached, **KWARGS)))
        until(lambda: not serve.status(NAME).running)
        assert upstream.made < 1000
        served = threading.Thread(target=server.wait)
        served.start()
        until(lambda: serve.status(NAME).epoch == 1)
        assert not server.wait(0.0)
        upstream.n = 100
        (epoch,) = Job(1, KWARGS).end()
        assert counts_of(epoch, 100) == [2] * 100
        served.join(60)
        assert not served.is_alive()


def test_upstream_that_fails_fails_all_jobs():
    def gate(number):
        if number == 40:
            raise RuntimeError("the disk is gone")

    with serve.Server(Numbers(100, gate), NAME, window=8, jobs=2) as server:
        jobs = [Job(1, KWARGS) for _ in range(2)]
        for job in jobs:
            with pytest.raises(UpstreamError, match="the disk is gone"):
                job.end()
        with pytest.raises(UpstreamError, match="the disk is gone"):
            server.wait(60)


def test_a_server_that_is_closed_fails_its_jobs():
    gated = GatedServer()
    job = Job(1, KWARGS)
    gated.close()
    gated.server.close()
    with pytest.raises(UpstreamError, match="closed"):
        job.end()
    assert serve.names() == []


def test_a_close_that_is_interrupted_and_one_beside_it():
    go_on = threading.Event()
    upstream = Numbers(100, lambda i: i < 40 or go_on.wait(60))
    server = serve.Server(upstream, NAME, window=8)
    job = Job(1, KWARGS)
    until(lambda: upstream.made == 40)
    serving = server_thread()
    join, serving.join = serving.join, interrupted
    with pytest.raises(KeyboardInterrupt):
        server.close()
    assert address.Lock.is_held(address.base_path(NAME))
    serving.join = join
    closing = [threading.Thread(target=server.close) for _ in range(2)]
    for thread in closing:
        thread.start()
    go_on.set()
    for thread in closing:
        thread.join(60)
        assert not thread.is_alive()
        serve.Server(Numbers(3), NAME, window=8).close()  # the name is free
    with pytest.raises(UpstreamError, match="closed"):
        job.end()


def interrupted(timeout):
    raise KeyboardInterrupt


def test_a_server_that_does_not_come_back():
    gated = GatedServer()
    job = Job(1, KWARGS, reconnect=0.3)
    gated.close(restarting=True)
    with pytest.raises(UpstreamError, match="did not come back"):
        job.end()


def test_no_epoch_is_left():
    with (
        serve.Server(Numbers(10), NAME, window=8, epochs=1),
        serve.attach(NAME) as attached,
    ):
        loader = EchoLoader(attached, **KWARGS)
        list(loader)
        with pytest.raises(UpstreamError, match="all of its epochs"):
            list(loader)


def test_kills():
    assert kill(30, 1) > 0
