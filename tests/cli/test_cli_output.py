"""Output of commands: for a terminal, for a file, and as JSON for scripts."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import echobuf
from echobuf.cli import UsageError, doctor, selftest
from echobuf.cli.output import check_output_file, line_width, wrapped
from helpers import Worker

LONG = "one two-three four " * 12 + "five"
COMMANDS = ("analyze", "bench", "demo", "doctor", "cmake-dir", "serve", "status")


@pytest.fixture(params=[80, 60])
def columns(request, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(request.param))
    return request.param


@pytest.fixture
def checks(monkeypatch):
    """A self-test that takes no time and says much."""

    def broken():
        raise RuntimeError(f"{LONG}\n{LONG}")

    found = [selftest.Check("good", lambda: LONG), selftest.Check("bad", broken)]
    monkeypatch.setattr(selftest, "CHECKS", found)
    return found


def words(text):
    return text.split()


# ---- wrapping


def test_words_stay_whole(columns):
    lines = wrapped(f"  {LONG}", indent=8).splitlines()
    assert max(map(len, lines)) <= columns
    assert len(lines) > 1
    assert words(" ".join(lines)) == words(LONG)
    assert lines[0].startswith("  one")
    assert all(line.startswith(" " * 8) for line in lines[1:])
    path = "/" + "long" * 40
    assert path in wrapped(f"written: {path}").splitlines()


def test_a_pipe_has_no_width(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert line_width() is None
    assert wrapped(LONG) == LONG


def test_doctor_breaks_lines_at_spaces(called, checks, columns):
    code, out, err = called("doctor")
    assert (code, err) == (1, "")
    assert max(map(len, out.splitlines())) <= columns
    assert words(out).count("five") == 3
    assert words(out).count("two-three") == 36


def test_doctor_in_a_pipe_has_a_line_for_each_thing(called, checks, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    _, out, _ = called("doctor")
    good, bad = out.splitlines()[-2:]
    assert LONG in good
    assert good.split()[:2] == ["OK", "good"]
    assert bad.split()[:2] == ["FAIL", "bad"]
    assert bad.count(LONG) == 2


@pytest.mark.parametrize("width", [80, 60])
def test_on_a_terminal_the_width_is_its_own(width):
    program = (
        "from echobuf.cli import selftest; from echobuf.cli.main import main\n"
        f"selftest.CHECKS = [selftest.Check('good', lambda: {LONG!r})]\n"
        "raise SystemExit(main(['doctor']))"
    )
    master, slave = pty.openpty()
    try:
        import fcntl
        import struct
        import termios

        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        kept = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
        done = subprocess.Popen(
            [sys.executable, "-c", program], stdout=slave, stderr=slave, env=kept
        )
        os.close(slave)
        slave = -1
        text = read_all(master)
        assert done.wait(60) == 0, text
    finally:
        os.close(master)
        if slave >= 0:
            os.close(slave)
    lines = text.replace("\r", "").splitlines()
    assert max(map(len, lines)) <= width
    assert words(text).count("two-three") == 12


def read_all(file):
    parts = []
    while True:
        try:
            part = os.read(file, 4096)
        except OSError:  # the other side was closed
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts).decode()


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_fits_the_terminal(called, name, columns):
    _, out, _ = called(*name.split(), "--help")
    assert max(map(len, out.splitlines())) <= columns
    assert not re.search(r"%\(", out)


# ---- doctor, as JSON


def test_doctor_as_json(called, checks):
    code, out, err = called("doctor", "--json")
    content = json.loads(out)
    assert (code, err) == (1, "")
    assert content["format"] == 1
    assert content["versions"]["echobuf"] == echobuf.__version__
    assert content["versions"]["numpy"]
    names = {"CPU cores", "Instructions", "CUDA driver", "CuPy"}
    assert names <= set(content["devices"])
    assert [check["passed"] for check in content["checks"]] == [True, False]
    assert content["checks"][0]["detail"] == LONG
    assert content["checks"][1]["title"] == "bad"
    assert content["passed"] is False
    checks.pop()
    code, out, _ = called("doctor", "--json")
    assert (code, json.loads(out)["passed"]) == (0, True)


def test_missing_packages_are_null(called, checks, monkeypatch):
    monkeypatch.setattr(doctor, "_installed", lambda name: None)
    _, out, _ = called("doctor", "--json")
    assert json.loads(out)["versions"]["torch"] is None


@pytest.mark.parametrize("name", ["doctor", "bench", "demo", "analyze", "status"])
def test_help_says_that_there_is_json(called, name):
    _, out, _ = called(name, "--help")
    assert "--json" in out
    assert "JSON" in out


# ---- bad values of every option


NUMBER = "not a number|"
WHOLE = "whole number"
BAD = {  # command and option: the reason that is given, and values
    ("demo", "--seed"): ("not an integer|2.*63 - 1", f"x 1.5 -1 {2**63} 1e3"),
    ("demo", "--target"): (NUMBER + "between 0 and 1", "x 0 1 nan inf"),
    ("demo", "--bandwidth"): (NUMBER + "kB/s", "x 0 -1 nan inf 0.5"),
    ("demo", "--out"): ("cannot write", "{file} {file}/below a\0b"),
    ("bench", "--rounds"): (WHOLE, "x 0 -1 1.5 nan"),
    ("bench", "--out"): ("cannot write", "{file} {file}/below a\0b"),
    ("analyze", "--seconds"): (NUMBER + "> 0", "x 0 -1 nan inf 1e300"),
    ("analyze", "--timeout"): (NUMBER + "> 0", "x 0 -1 nan inf 1e300"),
    ("analyze", "--batch-size"): (WHOLE + "|smaller", "x 0 -1 1.5 1000000"),
    ("analyze", "--window"): (WHOLE + "|`--window`", "x 0 -1 1.5 2 1" + "0" * 30),
    ("analyze", "--max-factor"): (WHOLE + "|int from 1 to", "x 0 -1 1.5 2147483648"),
    ("analyze", "--length"): (WHOLE, "x 0 -1 1.5"),
    ("analyze", "--ranks"): (WHOLE + "|int from 1 to", "x 0 -1 1.5 2147483648"),
    ("analyze", "--storage-rate"): (NUMBER + "examples a second", "x 0 -1 nan inf"),
    ("analyze", "--peer-rate"): (NUMBER + "examples a second", "x 0 -1 nan inf"),
    ("analyze", "--cached"): (NUMBER + "from 0 to 1", "x -1 2 nan"),
    ("analyze", "--epochs"): (NUMBER + "`--epochs` is", "x 0 -1 0.5 nan inf"),
    ("analyze", "--repeat-lifetime"): (NUMBER + "`--repeat-lifetime` is", "x -1 nan"),
    ("analyze", "--json"): (
        "no folder|a folder|cannot write",
        "{folder} {file}/below missing/x.json a\0b",
    ),
    ("analyze", "--plot"): (
        "its suffix must be one of|no folder|cannot write",
        "{folder} x.jpg missing/x.png a\0b.png",
    ),
}
CASES = [
    (*key, reason, value)
    for key, (reason, values) in BAD.items()
    for value in (*values.split(), "")
    if value or key[1] not in ("--out", "--json")  # which may be empty
]
LOOP = """
import time
import numpy as np
def make():
    return [np.zeros((4, 3))] * 40, lambda batch: time.sleep(1e-3)
"""


@pytest.fixture(scope="module")
def loop(tmp_path_factory):
    path = tmp_path_factory.mktemp("loops") / "a_training_loop.py"
    path.write_text(LOOP)
    return path


@pytest.mark.parametrize(("command", "option", "reason", "value"), CASES)
def test_a_bad_value_is_one_line_that_names_the_option(
    called, tmp_path, monkeypatch, loop, command, option, reason, value
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    value = value.format(file=tmp_path / "file", folder=tmp_path)
    arguments = [command, f"{option}={value}"]
    if command == "analyze":
        arguments += [f"{loop}:make"]
        if option != "--seconds":
            arguments += ["--seconds", "0.1"]
        if option in ("--storage-rate", "--peer-rate", "--cached"):
            arguments += ["--ranks", "2"]
    code, out, err = called(*arguments)
    assert (code, out) == (2, ""), err
    assert err.count("\n") == 1
    assert err.startswith(f"echobuf {command}: ")
    assert option in err
    assert re.search(reason, err), err
    python = option.strip("-").replace("-", "_")
    assert f"`{python}`" not in err


@pytest.mark.parametrize(
    "arguments",
    [("doctor", "--json", "x"), ("doctor", "--json=1"), ("cmake-dir", "--json")],
)
def test_options_that_a_command_does_not_have_are_named(called, arguments):
    code, out, err = called(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert arguments[-1].partition("=")[0] in err


def test_messages_of_python_calls_name_options(called, loop, tmp_path):
    other = tmp_path / "another_loop.py"
    text = loop.read_text().replace("* 40", "* 4 + [np.zeros((4, 5))] * 36")
    other.write_text(text)
    arguments = (f"{other}:make", "--batch-size", "3", "--seconds", "0.1")
    code, _, err = called("analyze", *arguments)
    assert code == 2
    assert "If upstream yields batches: leave --batch-size out." in err


def test_every_option_of_these_commands_is_tried(called):
    for command in ("demo", "bench", "analyze"):
        _, out, _ = called(command, "--help")
        named = set(re.findall(r"(?<![\w-])--[a-z-]+", out.partition("\n\n")[0]))
        flags = {"--no-progress", "--check"}
        flags |= set() if command == "analyze" else {"--json"}
        tried = {option for name, option in BAD if name == command}
        assert named - flags == tried


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_measured(
    called, tmp_path, monkeypatch, loop
):
    monkeypatch.setattr(
        "echobuf.cli.analyze._analyze", lambda *_: pytest.fail("measured")
    )
    missing = Path("/proc/self/fdinfo")  # nobody can, root neither
    code, _, err = called("analyze", f"{loop}:make", f"--json={missing}/x")
    assert (code, err.count("\n")) == (2, 1)
    assert "--json" in err


@pytest.fixture
def pipe():
    """A pipe, as a shell gives it to what follows `>(`."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_a_report_may_go_into_a_pipe(called, loop, pipe):
    source, target = pipe
    report = Worker(os.read, source, 2**20)
    arguments = (f"{loop}:make", "--seconds=0.1", f"--json=/dev/fd/{target}")
    code, _, err = called("analyze", *arguments)
    assert code == 0, err
    assert json.loads(report.result())["format"]


def test_a_pipe_that_nothing_reads_yet_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    Worker(check_output_file, "--json", tmp_path / "fifo").result()


def test_a_file_in_a_folder_in_which_none_can_be_made():
    check_output_file("--json", Path("/proc/self/comm"))
    check_output_file("--json", Path("/dev/stdout"))
    with pytest.raises(UsageError, match="--json: cannot write"):
        check_output_file("--json", Path("/proc/self/another"))
    with pytest.raises(UsageError, match="--json: cannot write"):
        check_output_file("--json", Path("/proc/self/exe"))  # which runs
    assert Path("/proc/self/comm").read_text()
