"""`echobuf analyze FILE:NAME` by real use."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from echobuf.analysis import Report
from echobuf.cli.main import main

FILE = """
    import threading
    import time
    import numpy as np

    BATCHES = [np.full((4, 3), number) for number in range(40)]

    def step(batch):
        time.sleep(0.002)

    class Space:
        quick = (BATCHES, step)

    def quick(): return BATCHES, step
    def examples(): return [np.zeros(3)] * 400, step
    def few(): return BATCHES[:3], step
    def nothing(): return [], step
    def never():
        time.sleep(1)
        yield
    def hangs(): return never(), step
    def at_once(): return BATCHES, lambda batch: None
    def no_pair(): return BATCHES
    def three(): return BATCHES, step, step
    def takes(argument): return BATCHES, step
    def fails(): raise ValueError("no such\\nfile")
    def leaves(): raise SystemExit("bye")
    number = 5
    def begun():
        print("begun", flush=True)
        time.sleep(1000)
        yield
    def says(): return begun(), step

    class Later:
        def __iter__(self):
            for batch in BATCHES:
                if threading.current_thread().name == "echobuf-feeder":
                    print("begun", flush=True)
                    time.sleep(1000)
                yield batch
    def says_later(): return Later(), step
"""


pytestmark = pytest.mark.usefixtures("no_leaked_threads")


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    path = tmp_path / "training_loop.py"
    path.write_text(textwrap.dedent(FILE))
    yield path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def called(capsys, *arguments):
    code = main(("analyze", *map(str, arguments)))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("name", ["quick", "Space.quick"])
def test_the_report_is_printed(capsys, file, name):
    code, out, err = called(capsys, f"{file}:{name}", "--seconds", "0.3")
    assert (code, err) == (0, "")
    assert "t_downstream" in out
    assert max(map(len, out.splitlines())) <= 80


def test_examples_with_a_batch_size(capsys, file):
    settings = ("--batch-size", 8, "--window", 64, "--max-factor", 4, "--length", 900)
    code, out, _ = called(
        capsys, f"{file}:examples", "--seconds", 0.3, "--json", "-", *settings
    )
    assert code == 0
    measured = json.loads(out)["measurements"]
    assert measured["batch_size"] == 8
    assert (measured["window"], measured["max_factor"]) == (64, 4)
    assert measured["length"] == 900


def test_ranks_with_caches(capsys, file):
    settings = ("--ranks", 4, "--storage-rate", 50, "--peer-rate", 5000)
    arguments = (f"{file}:quick", "--seconds", 0.3, *settings, "--cached", 0.5, 1)
    code, out, _ = called(capsys, *arguments, "--json", "-")
    assert code == 0
    content = json.loads(out)
    bare, *cached = content["across"]
    assert content["ranks"] == 4
    assert bare["epoch_s"] >= content["epoch_examples"] / 50
    assert [each["share"] for each in cached] == [0.5, 0.5, 1, 1]
    assert all(each["epoch_s"] < bare["epoch_s"] for each in cached)
    code, out, _ = called(capsys, *arguments)
    assert code == 0
    assert "epoch on 4 ranks" in out
    assert max(map(len, out.splitlines())) <= 80


def test_echoes_are_priced_for_epochs_and_a_lifetime(capsys, file):
    settings = ("--epochs", 3, "--repeat-lifetime", "inf", "--json", "-")
    code, out, _ = called(capsys, f"{file}:quick", "--seconds", 0.3, *settings)
    assert code == 0
    content = json.loads(out)
    assert content["repeats"] == {"epochs": 3, "lifetime": None}
    worths = {each["factor"]: each["worth"] for each in content["worths"]}
    assert worths[1] == 1  # no epoch and no echo is worth less than the first
    assert worths[4] == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize("stalls", [False, True])
def test_check_is_an_exit_code(capsys, monkeypatch, file, stalls):
    monkeypatch.setattr(Report, "input_stall", stalls)
    monkeypatch.setattr(Report, "pays", False)  # on a busy machine nothing is known
    asked = called(capsys, f"{file}:quick", "--seconds", 0.2, "--check")
    usual = called(capsys, f"{file}:quick", "--seconds", 0.2)
    assert (asked[0], usual[0]) == (int(stalls), 0)
    assert "t_downstream" in asked[1]
    assert asked[2] == ""


@pytest.mark.parametrize("stalls", [False, True])
def test_an_undecided_result_is_no_stall(capsys, monkeypatch, file, stalls):
    monkeypatch.setattr(Report, "input_stall", stalls)
    monkeypatch.setattr(Report, "pays", None)
    asked = called(capsys, f"{file}:quick", "--seconds", 0.2, "--check", "--json", "-")
    usual = called(capsys, f"{file}:quick", "--seconds", 0.2)
    assert (asked[0], usual[0]) == (3, 0)
    assert json.loads(asked[1])["pays"] is None


def test_json_and_picture_are_written(capsys, file, tmp_path):
    out = tmp_path / "report.json"
    picture = tmp_path / "report.png"
    arguments = ("--json", out, "--plot", picture, "--seconds", 0.3)
    code, printed, _ = called(capsys, f"{file}:quick", *arguments)
    assert code == 0
    assert json.loads(out.read_text())["message"] in " ".join(printed.split())
    assert picture.read_bytes().startswith(b"\x89PNG")


BAD = {
    "no colon": ("training_loop.py", "not FILE:NAME"),
    "no name": ("training_loop.py:", "not FILE:NAME"),
    "no file": ("missing.py:quick", "does not exist"),
    "a folder": (".:quick", "is a folder"),
    "no such name": ("training_loop.py:slwo", "it defines"),
    "no such name in a pair": ("training_loop.py:Space.quick.x", "defines no"),
    "not a name": ("training_loop.py:1st", "not a name"),
    "no pair": ("training_loop.py:no_pair", "not a pair"),
    "three": ("training_loop.py:three", "not a pair"),
    "a number": ("training_loop.py:number", "not a pair"),
    "an argument": ("training_loop.py:takes", "without arguments"),
    "raises": ("training_loop.py:fails", "(line "),
    "exits": ("training_loop.py:leaves", "SystemExit"),
    "few": ("training_loop.py:few", "too few"),
    "nothing": ("training_loop.py:nothing", "yields nothing"),
    "hangs": ("training_loop.py:hangs", "at all for 0.2 s"),
    "at once": ("training_loop.py:at_once", "microseconds"),
    "not Python": ("notes.txt:quick", "does not end in '.py'"),
    "bad syntax": ("broken.py:quick", "line 2"),
    "raises on import": ("raising.py:quick", "no such package.*line 1"),
    "leaves on import": ("leaving.py:quick", "SystemExit"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_code_2(capsys, file, monkeypatch, name):
    monkeypatch.chdir(file.parent)
    (file.parent / "notes.txt").write_text("quick")
    (file.parent / "broken.py").write_text("x = 1\ny = = 2\n")
    (file.parent / "raising.py").write_text("raise ImportError('no such package')\n")
    (file.parent / "leaving.py").write_text("raise SystemExit(0)\n")
    target, reason = BAD[name]
    more = ("--timeout", 0.2) if name == "hangs" else ()
    code, out, err = called(capsys, target, "--seconds", 0.2, *more)
    assert (code, out) == (2, "")
    assert err.startswith("echobuf analyze: ")
    assert err.count("\n") == 1
    assert all(part in err for part in reason.split(".*")), err


def test_rates_are_for_a_job_of_several_ranks(capsys, file):
    code, out, err = called(capsys, f"{file}:quick", "--storage-rate", "100")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--ranks N" in err


def test_a_file_may_have_the_name_of_a_module(capsys, file):
    other = file.with_name("json.py")
    file.rename(other)
    code, _, err = called(capsys, f"{other}:quick", "--seconds", 0.2)
    assert (code, err) == (0, "")
    assert sys.modules["json"] is json


@pytest.mark.parametrize("name", ["says", "says_later"])
def test_ctrl_c_ends_it(file, name):
    """While upstream hangs, alone or beside the step: its thread is left."""
    target = f"{file.name}:{name}"
    process = subprocess.Popen(
        [sys.executable, "-m", "echobuf", "analyze", target, "--seconds", "0.5"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=file.parent,
    )
    try:
        assert process.stdout.readline() == "begun\n"
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (130, "", "echobuf: interrupted\n")
