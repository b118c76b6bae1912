"""Jobs of a server get the leaves of its examples that are no arrays."""

import contextlib
import itertools
import os
import threading

import pytest
from serve_carried_data import (
    Dataset,
    Titled,
    TitledJob,
    Unlucky,
    check,
    served,
    server_of,
)
from serve_data import NAME, Numbers, close_at_gate, ring_of
from serve_kills import main as kill
from serve_worker_kills import main as kill_with_workers

import echobuf
from echobuf import EchoLoader, serve
from echobuf.testing import simulated_cuda
from helpers import WAIT_S, until
from leaked_threads import no_feeder

N = 300
KWARGS = {"window": 16, "batch_size": 4}
ROWS = {"payload_bytes": 16_000}


def whole(factor, n=N):
    return dict.fromkeys(range(n), factor)


@pytest.mark.parametrize(
    ("upstream", "options"),
    [
        (Titled(N), {}),
        (Titled(N, batch=7), {"batched": True}),
        (Dataset(N), {"num_workers": 2}),
        (Titled(N), {"spill": "."}),
        (Titled(N, ragged=True), ROWS),
        (Titled(N, ragged=True, batch=7), {**ROWS, "batched": True}),
        (Dataset(N, ragged=True), {**ROWS, "num_workers": 2}),
    ],
)
def test_each_use_has_exactly_its_objects(upstream, options, tmp_path):
    if "spill" in options:
        options = {"spill": tmp_path}
    rows = {**ROWS, "ragged": "padded"} if "payload_bytes" in options else {}
    kwargs = [
        {**KWARGS, "factor": 2, "prefetch": 2, **rows},
        {**KWARGS, "factor": 3, "window": 8, "overlap_epochs": True, **rows},
        {**KWARGS, "factor": 1, **rows},
    ]
    with server_of(upstream, jobs=3, **options) as server:
        jobs = [
            TitledJob(3, each, pause=pause)
            for each, pause in zip(kwargs, (0, 0.0005, 0.001), strict=True)
        ]
        for job, each in zip(jobs, kwargs, strict=True):
            assert served(job.end()) == [whole(each["factor"])] * 3
        assert server.wait(WAIT_S)


def test_jobs_on_a_device():
    with simulated_cuda() as simulation, simulation.stream():
        server = server_of(Titled(N), epochs=1)
        attached = serve.attach(NAME)
        loader = EchoLoader(attached, device="cuda", factor=2, **KWARGS)
        ids = [i for batch in loader for i in titles_of(batch)]
        assert sorted(ids) == sorted([*range(N)] * 2)
        del loader
        attached.close()
        server.close()
        no_feeder()


def titles_of(batch):
    ids = [int(title.rstrip(":")) for title in batch["title"]]
    assert batch["maybe"] == [None if i % 3 else frozenset({i}) for i in ids]
    return ids


def test_jobs_come_late_leave_early_and_go():
    go_on = threading.Event()
    upstream = Titled(N, gate=lambda i: i < 150 or go_on.wait(WAIT_S))
    with server_of(upstream, jobs=2, epochs=4) as server:
        whole_job = TitledJob(4, {**KWARGS, "factor": 2})
        with serve.attach(NAME) as attached:
            loader = EchoLoader(attached, factor=2, **KWARGS)
            for batch in itertools.islice(loader, 10):  # which leaves in the middle
                check(batch)
            late = TitledJob(2, {**KWARGS, "factor": 1})
            until(lambda: len(ring_of(server).core.jobs()) == 3)
            go_on.set()
            assert served([[check(batch) for batch in loader]]) == [whole(2)]
        assert served(late.end()) == [whole(1)] * 2
        assert served(whole_job.end()) == [whole(2)] * 4


def test_a_server_that_has_ended_has_left_what_was_published():
    server = server_of(Titled(60), epochs=1, lag=100)
    with serve.attach(NAME) as attached:
        loader = EchoLoader(attached, factor=2, **KWARGS)
        epoch = iter(loader)
        ids = check(next(epoch))
        assert server.wait(WAIT_S)
        server.close()
        for batch in epoch:
            ids += check(batch)
    assert sorted(ids) == sorted([*range(60)] * 2)


@pytest.mark.parametrize("workers", [0, 2])
def test_another_server_goes_on_in_the_middle(workers):
    go_on = threading.Event()
    gate = (lambda i: i < 100 or go_on.wait(WAIT_S)) if not workers else None
    kind = Dataset if workers else Titled
    server = server_of(kind(N, gate=gate), num_workers=workers)
    job = TitledJob(3, {**KWARGS, "factor": 2}, pause=0.002 if workers else 0)
    until(lambda: ring_of(server).core.published() > 60)
    if workers:
        server.close(restarting=True)
    else:
        close_at_gate(server, go_on, restarting=True)
    with server_of(kind(N), num_workers=workers):
        assert served(job.end()) == [whole(2)] * 3


@pytest.mark.parametrize("workers", [0, 2])
def test_what_cannot_be_pickled_names_its_example(workers):
    upstream = Unlucky(N)
    with server_of(upstream, num_workers=workers) as server:
        job = TitledJob(1, {**KWARGS, "factor": 1})
        said = r"example 40 of upstream.*`example\['maybe'\]` is of type generator"
        with pytest.raises(echobuf.UpstreamError, match=said):
            job.end()
        with pytest.raises(echobuf.ItemError, match=said):
            server.wait(WAIT_S)


def test_a_job_that_carries_nothing_says_so():
    with server_of(Titled(N)), serve.attach(NAME) as attached:
        loader = EchoLoader(attached, factor=1, carry=False, **KWARGS)
        with pytest.raises(echobuf.SpecError, match=r"'maybe'.*'title'"):
            next(iter(loader))


def test_another_structure_is_refused():
    go_on = threading.Event()
    server = server_of(Titled(N, gate=lambda i: i < 100 or go_on.wait(WAIT_S)))
    job = TitledJob(1, {**KWARGS, "factor": 1})
    until(lambda: ring_of(server).core.published() == 100)
    close_at_gate(server, go_on, restarting=True)
    with pytest.raises(echobuf.SpecError, match="End those jobs first"):
        server_of(Numbers(N))
    with server_of(Titled(N)):
        assert served(job.end()) == [whole(1)]


def test_states_between_epochs():
    with server_of(Titled(N), epochs=9):
        with serve.attach(NAME) as attached:
            loader = EchoLoader(attached, factor=2, **KWARGS)
            assert served([[check(batch) for batch in loader]]) == [whole(2)]
            state = loader.state_dict()
            loader.close()
        with serve.attach(NAME) as attached:
            loader = EchoLoader(attached, factor=2, **KWARGS)
            loader.load_state_dict(state)
            assert served([[check(batch) for batch in loader]]) == [whole(2)]


def test_a_job_that_was_dropped_is_told_so():
    with server_of(Titled(N), lag=1000) as server:
        attached = serve.attach(NAME)
        loader = EchoLoader(attached, factor=1, prefetch=4, **KWARGS)
        epoch = iter(loader)
        check(next(epoch))
        ring = ring_of(server)
        until(lambda: ring.core.published() >= N)
        ring.core.leave_seat(0, 1)  # as if its lease were over
        ring.log.release(N)
        with pytest.raises(echobuf.UpstreamError, match="dropped this job"):
            [*map(check, epoch)]
        attached.close()


def test_memory_is_given_back():
    size = 100_000
    with server_of(Titled(N, size=size), jobs=2, epochs=3) as server:
        jobs = [
            TitledJob(3, {**KWARGS, "factor": 1}, size=size, pause=pause)
            for pause in (0, 0.02)
        ]
        most = 0
        while any(job.is_alive() for job in jobs):
            with contextlib.suppress(OSError):
                most = max(most, os.fstat(ring_of(server).log.descriptor).st_blocks)
        for job in jobs:
            assert served(job.end()) == [whole(1)] * 3
    assert most * 512 < 3 * N * size / 2


def test_killed_servers_and_jobs():
    assert kill(25, seed=3, carries=True) > 3


@pytest.mark.parametrize("ragged", [False, True])
def test_killed_workers_of_a_server(ragged):
    assert kill_with_workers(12, seed=4, ragged=ragged, carries=True).whole > 2
