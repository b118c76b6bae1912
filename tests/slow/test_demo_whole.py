"""The whole of `echobuf demo`, with an easy target."""

# ruff: noqa: E402 (the packages that may be missing decide whether the tests can run)

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from demo_parts import check_json, require_demo

require_demo()

import torch

from echobuf.cli.demo.session import run_demo
from echobuf.cli.demo.settings import Settings
from echobuf.cli.main import main


@pytest.fixture
def two_threads():
    """Give torch two threads, of which the demo uses one."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_demo_to_an_easy_target(capsys, tmp_path):
    out = tmp_path / "a folder" / "deeper"
    arguments = ["--target", "0.3", "--bandwidth", "2000", "--seed", "3"]
    assert main(["demo", *arguments, "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert not any(ord(c) < 32 and c != "\n" for c in printed.out)
    for words in ("R = ", "no echoing", "batch echoing", "example echoing", "formula"):
        assert words in printed.out
    for name in ("accuracy.png", "demo.json"):
        assert str(out / name) in " ".join(printed.out.split())  # of lines
        assert (out / name).stat().st_size > 0
    content = json.loads((out / "demo.json").read_text())
    check_json(content)
    assert content["seed"] == 3
    assert content["command_line"][2:-2] == arguments
    assert all(run["reached"] for run in content["runs"])
    assert content["runs"][1]["effective_factor"] > 1
    assert torch.get_num_threads() == 2


def test_demo_that_misses_its_target_says_so(capsys, tmp_path):
    settings = Settings(
        target=0.999,
        bandwidth_kb_s=2000.0,
        out=tmp_path,
        progress=False,
        budget_s=0.5,
        calibration_s=0.1,
    )
    result = run_demo(settings, ["echobuf", "demo"])
    assert not any(run.reached for run in result.runs)
    assert all(run.points for run in result.runs)
    printed = " ".join(capsys.readouterr().out.split())  # of lines
    assert printed.count("not in ") == 4
    assert "it did not pay" in printed
    runs = json.loads((tmp_path / "demo.json").read_text())["runs"]
    assert [run["seconds"] for run in runs] == [None] * 4


@pytest.mark.parametrize("kind", ["file", "below a file", "null"])
def test_a_folder_that_cannot_be_written_to(capsys, tmp_path, kind):
    file = tmp_path / "file"
    file.touch()
    out = {"file": str(file), "below a file": f"{file}/x", "null": "a\0b"}[kind]
    assert main(["demo", "--out", out]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "--out" in printed.err


def children(pid):
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")
def test_ctrl_c_ends_the_demo_and_its_server(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "echobuf", "demo", "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    for line in process.stdout:
        if line.startswith("Measured"):  # the first run has begun
            break
    (server_id,) = children(process.pid)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "echobuf: interrupted\n"
    with pytest.raises(ProcessLookupError):
        os.kill(server_id, 0)
    assert list(tmp_path.iterdir()) == []
