"""`echobuf serve` and `echobuf status`, as a user calls them."""

import json
import os
import signal
import subprocess
import sys

import pytest
from serve_data import NAME, Job, Numbers, counts_of

from echobuf import EchoLoader, UpstreamError, serve
from echobuf.cli.main import main
from echobuf.serve.server_loop import ServerLoop
from helpers import until

FILE = """
import numpy as np

class Numbers:
    def __len__(self):
        return 200
    def __iter__(self):
        for i in range(200):
            yield {{"id": np.int64(i), "data": (np.full((3, 2), i, np.float32),
                                               np.full(5, i % 251, np.uint8))}}

numbers = Numbers()
def make():
    return Numbers()
def fails():
    raise RuntimeError("no data")
nothing = []
number = 3
"""
KWARGS = {"window": 8, "batch_size": 4, "factor": 2}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "data.py"
    path.write_text(FILE.format())
    return path


def command(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "echobuf", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("target", ["numbers", "make"])
def test_the_command_serves_all_epochs_and_exits(file, target):
    server = command(
        "serve", f"{file}:{target}", "--name", NAME, "--window", 8, "--jobs", 2,
        "--epochs", 2, "--lag", 3,
    )  # fmt: skip
    jobs = [Job(2, {**KWARGS, "seed": seed}, timeout=60.0) for seed in range(2)]
    for job in jobs:
        for epoch in job.end():
            assert counts_of(epoch, 200) == [2] * 200
    said, errors = server.communicate(timeout=60)
    assert server.returncode == 0, errors
    assert "echobuf.serve.attach('numbers')" in said


def test_the_command_serves_examples_that_differ_in_length(tmp_path, capsys):
    path = tmp_path / "texts.py"
    path.write_text(
        "import numpy as np\ntexts = [np.full(i % 9, i, np.int32) for i in range(99)]\n"
    )
    arguments = ("serve", f"{path}:texts", "--name", NAME, "--window", 8, "--epochs", 1)
    server = command(*arguments, "--payload-bytes", 640)
    with serve.attach(NAME, timeout=60.0) as attached:
        assert main(["status", NAME]) == 0
        assert "examples: int32[None]\n" in capsys.readouterr().out
        kwargs = {**KWARGS, "payload_bytes": 640}
        rows = sum(len(batch.values) for batch in EchoLoader(attached, **kwargs))
    assert rows == 2 * sum(i % 9 for i in range(99))
    _, errors = server.communicate(timeout=60)
    assert server.returncode == 0, errors
    server = command(*arguments, "--payload-bytes", 3)
    _, errors = server.communicate(timeout=60)
    assert server.returncode == 2
    assert "`--payload-bytes` is 3" in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_may_be_interrupted_and_started_again(file, number):
    arguments = ("serve", f"{file}:numbers", "--window", 8)
    server = command(*arguments)
    attached = serve.attach(NAME, timeout=60.0)
    server.send_signal(number)
    _, errors = server.communicate(timeout=60)
    assert server.returncode == 130
    assert errors.splitlines() == [
        "jobs wait for this server to come back",
        "echobuf: interrupted",
    ]
    server = command(*arguments, "--epochs", 1)
    with attached:
        from serve_data import ids_of

        served = [ids_of(batch) for batch in EchoLoader(attached, **KWARGS)]
    assert counts_of(served, 200) == [2] * 200
    server.communicate(timeout=60)
    assert server.returncode == 0


def test_the_command_may_be_interrupted_as_soon_as_jobs_may_attach(
    file, monkeypatch, capsys
):
    opens = ServerLoop.open

    def is_ended_here(server_loop, *terms):
        opens(server_loop, *terms)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(ServerLoop, "open", is_ended_here)
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("not handled"))
    try:
        assert main(["serve", f"{file}:numbers", "--window", "8"]) == 130
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capsys.readouterr().err == "echobuf: interrupted\n"  # there are no jobs
    assert serve.names() == []


def test_status(capsys):
    assert main(["status"]) == 0
    assert capsys.readouterr().out == "there is no server\n"
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    with serve.Server(Numbers(10), NAME, window=8, jobs=2):
        assert main(["status", "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == [NAME]
        assert main(["status"]) == 0
        assert capsys.readouterr().out == f"{NAME}\n"
        assert main(["status", NAME]) == 0
        assert "no job is attached" in capsys.readouterr().out
        with serve.attach(NAME, job="[bold]"):
            assert main(["status", NAME]) == 0
            said = capsys.readouterr().out
            assert "waits to begin epoch 0" in said
            assert "[bold]" in said
            assert str(os.getpid()) in said
            assert main(["status", NAME, "--json"]) == 0
            (job,) = json.loads(capsys.readouterr().out)["jobs"]
            assert job["job"] == "[bold]"
            assert job["waiting"]
        until(lambda: not serve.status(NAME).jobs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["status", "unknown"], "no such server"),
        (["status", "a/b"], "NAME is 'a/b'"),
        (["serve"], "FILE:NAME"),
        (["serve", "nofile.py:x"], "does not exist"),
        (["serve", "{file}:fails"], "no data"),
        (["serve", "{file}:number"], "FILE:NAME is a int"),
        (["serve", "{file}:numbers", "--window", "0"], "--window"),
        (["serve", "{file}:numbers", "--lease", "0"], "--lease is"),
        (["serve", "{file}:numbers", "--lag", "-1"], "--lag is"),
        (["serve", "{file}:numbers", "--name", "a b"], "--name is"),
        (["serve", "{file}:numbers", "--name", ""], "--name is"),
        (["serve", "{file}:numbers", "--jobs", "65"], "--jobs is"),
        (["serve", "{file}:numbers", "--spill", "/nonexistent"], "--spill is"),
        (["serve", "{file}:numbers", "--num-workers", "2"], "map-style"),
    ],
)
def test_bad_usage(file, capsys, arguments, message):
    assert main([each.format(file=file) for each in arguments]) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert errors.count("\n") == 1


def test_an_upstream_of_nothing(file, capsys):
    assert main(["serve", f"{file}:nothing"]) == 1
    assert "yields nothing" in capsys.readouterr().err


@pytest.mark.parametrize("fails_at", [0, 5])
def test_words_of_an_upstream_are_its_own(file, fails_at):
    with open(file, "a") as more:
        more.write(
            "def fails_at():\n"
            f"    for _, each in zip(range({fails_at}), Numbers()):\n"
            "        yield each\n"
            "    raise RuntimeError('`window` of the sensor is closed')\n"
        )
    server = command("serve", f"{file}:fails_at", "--name", NAME, "--window", 8)
    if fails_at:
        with pytest.raises(UpstreamError, match="`window` of the sensor"):
            Job(1, KWARGS, timeout=60.0).end()
    _, errors = server.communicate(timeout=60)
    assert server.returncode == 1
    assert "`window` of the sensor" in errors
