"""Mistakes get an error of one line, and nothing is overwritten."""

import errno
import os

import numpy as np
import pytest
from serve_data import NAME, GatedServer, Job, Numbers

import echobuf.serve.client
from echobuf import (
    CapacityError,
    EchoLoader,
    OptionError,
    SpecError,
    StateError,
    UpstreamError,
    serve,
)
from echobuf.serve import address
from echobuf.testing import simulated_cuda
from helpers import until

KWARGS = {"window": 8, "batch_size": 4, "factor": 2}


@pytest.fixture
def server():
    with serve.Server(Numbers(100), NAME, window=8) as server:
        yield server


@pytest.mark.parametrize("name", ["", ".x", "-x", "a/b", "a b", "x" * 65, None, 3])
def test_names(name):
    for call in (
        lambda: serve.Server(Numbers(1), name, window=8),
        lambda: serve.attach(name),
        lambda: serve.status(name),
    ):
        with pytest.raises(OptionError, match="`name` is"):
            call()


def test_a_name_that_is_taken(server):
    with pytest.raises(OptionError, match=f"process {os.getpid()} has"):
        serve.Server(Numbers(1), NAME, window=8)
    with serve.Server(Numbers(1), "other", window=8):
        assert serve.names() == [NAME, "other"]
    assert serve.status(NAME).name == NAME


def test_a_name_that_is_unknown(server):
    for call in (serve.attach, serve.status):
        with pytest.raises(OptionError, match=f"no such server.*there is '{NAME}'"):
            call("another")


def test_a_job_twice(server):
    with serve.attach(NAME, job="a"):
        with pytest.raises(OptionError, match="a job of that name"):
            serve.attach(NAME, job="a")
        serve.attach(NAME, job="b").close()
    until(lambda: not serve.status(NAME).jobs)
    serve.attach(NAME, job="a").close()


def test_more_jobs_than_seats(server):
    attached = [serve.attach(NAME) for _ in range(64)]
    with pytest.raises(OptionError, match="no seat"):
        serve.attach(NAME)
    for each in attached:
        each.close()


@pytest.mark.parametrize("job", ["", 3])
def test_names_of_jobs(server, job):
    with pytest.raises(OptionError, match="`job`"):
        serve.attach(NAME, job=job)


def test_another_version(server, monkeypatch):
    monkeypatch.setattr(echobuf.serve.client, "VERSION", "0.0.1")
    for call in (serve.attach, serve.status):
        with pytest.raises(OptionError, match="must be the same"):
            call(NAME)


def test_another_spec_after_a_restart():
    gated = GatedServer()
    job = Job(1, KWARGS, reconnect=20.0)
    gated.close(restarting=True)
    with pytest.raises(SpecError, match="End those jobs first"):
        serve.Server([np.zeros(3)] * 100, NAME, window=8)
    with serve.Server(Numbers(100), NAME, window=8, epochs=1):
        assert len(job.end()[0]) == 50


def test_a_folder_that_others_can_enter(server):
    folder = address.folder()
    folder.chmod(0o755)
    for call in (serve.attach, serve.status):
        with pytest.raises(OptionError, match="closed to others"):
            call(NAME)
    folder.chmod(0o700)


def test_a_folder_of_another_user(server, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "getuid", lambda: 4242)
        with pytest.raises(OptionError, match="must be of user 4242"):
            serve.attach(NAME)


def test_a_socket_of_another_user(server, monkeypatch):
    folder = address.folder()
    with monkeypatch.context() as patch:
        patch.setattr(address, "folder", lambda: folder)
        patch.setattr(os, "getuid", lambda: 4242)
        with pytest.raises(OptionError, match="one user's"):
            serve.attach(NAME)


def test_options_that_the_server_decides_are_refused(server):
    with serve.attach(NAME) as attached:
        for name, value in (
            ("num_workers", 2),
            ("sampler", range(3)),
            ("batched", True),
        ):
            with pytest.raises(OptionError, match=f"`{name}`"):
                EchoLoader(attached, **{**KWARGS, name: value})
        with pytest.raises(OptionError, match="`unit`"):
            EchoLoader(attached, window=8, factor=2, unit="batch")


def test_an_attached_job_is_for_one_loader(server):
    with serve.attach(NAME) as attached:
        loader = EchoLoader(attached, **KWARGS)
        with pytest.raises(OptionError, match="for another loader"):
            EchoLoader(attached, **KWARGS)
        del loader
        with pytest.raises(OptionError, match="by a loader alone"):
            iter(attached)


def test_a_state_in_the_middle_of_an_epoch(server):
    with serve.attach(NAME) as attached:
        loader = EchoLoader(attached, **KWARGS)
        for batch, _ in zip(loader, range(30), strict=False):
            assert len(batch["id"]) == 4
        state = loader.state_dict()
    with serve.attach(NAME) as attached:
        loader = EchoLoader(attached, **KWARGS)
        loader.load_state_dict(state)
        with pytest.raises(StateError, match="does not come again"):
            next(iter(loader))


def test_a_job_that_was_closed(server):
    attached = serve.attach(NAME)
    loader = EchoLoader(attached, **KWARGS)
    attached.close()
    attached.close()
    with pytest.raises(UpstreamError, match="left"):
        next(iter(loader))


def test_memory_that_is_not_there(tmp_path):
    with pytest.raises(CapacityError, match="this machine has"):
        serve.Server([np.zeros(1 << 20)] * 3, NAME, window=1 << 30)
    with pytest.raises(CapacityError, match="do not fit"):
        serve.Server([np.zeros(1 << 20)] * 3, NAME, window=1 << 30, spill=tmp_path)
    assert not list(tmp_path.iterdir())
    assert serve.names() == []


@pytest.mark.parametrize("spill", ["/nonexistent", 3, __file__])
def test_a_disk_that_is_not_there(spill):
    with pytest.raises(OptionError, match="`spill`"):
        serve.Server(Numbers(3), NAME, window=8, spill=spill)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"window": 0}, "`window`"),
        ({"lag": -1}, "`lag`"),
        ({"jobs": 0}, "`jobs`"),
        ({"jobs": 65}, "`jobs`"),
        ({"epochs": 0}, "`epochs`"),
        ({"lease": 0}, "`lease`"),
        ({"lease": "long"}, "`lease`"),
        ({"batched": 3}, "`batched`"),
        ({"length": -1}, "`length`"),
        ({"num_workers": -1}, "`num_workers`"),
        ({"num_workers": 1}, "without `__len__`|map-style"),
    ],
)
def test_arguments_of_a_server(kwargs, message):
    with pytest.raises(OptionError, match=message):
        serve.Server(Numbers(3), NAME, **{"window": 8, **kwargs})
    assert serve.names() == []


@pytest.mark.parametrize("upstream", [[], iter(())])
def test_an_upstream_of_nothing(upstream):
    with pytest.raises(UpstreamError, match="yields nothing"):
        serve.Server(upstream, NAME, window=8)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files", "remote.bin"),
        RuntimeError("worker on node 7: Too many open files"),
        RuntimeError("can't start new thread"),
    ],
)
def test_an_upstream_that_says_that_something_has_run_out(error):
    def fail(number):
        raise error

    with pytest.raises(UpstreamError) as found:
        serve.Server(Numbers(10, fail), NAME, window=8)
    assert found.value.__cause__ is error


def test_upstreams_that_are_none():
    with pytest.raises(OptionError, match="`upstream`"):
        serve.Server(3, NAME, window=8)
    with pytest.raises(SpecError):
        serve.Server(["a"], NAME, window=8)

    def broken():
        raise RuntimeError("no data")
        yield

    with pytest.raises(UpstreamError, match="no data"):
        serve.Server(broken(), NAME, window=8)
    assert serve.names() == []


def test_one_epoch_alone_of_a_generator():
    with serve.Server((np.int64(i) for i in range(20)), NAME, window=8) as server:
        with serve.attach(NAME) as attached:
            loader = EchoLoader(attached, **KWARGS)
            assert sum(len(batch) for batch in loader) == 40
            with pytest.raises(UpstreamError, match="one epoch only"):
                next(iter(loader))
        with pytest.raises(UpstreamError, match="one epoch only"):
            server.wait(60)


def test_a_device_and_a_disk(tmp_path):
    with (
        simulated_cuda(),
        serve.Server(Numbers(20), NAME, window=8, spill=tmp_path),
        serve.attach(NAME) as attached,
    ):
        loader = EchoLoader(attached, device="cuda", **KWARGS)
        with pytest.raises(OptionError, match="`spill`"):
            next(iter(loader))
