"""Workers end with their training process, in every way that it may end."""

import os
import signal
import sys
from pathlib import Path

import pytest

from helpers import until

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "faults"))

from programs import finish, start  # noqa: E402 - beside the tests of faults


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def all_ended(pids):
    until(lambda: not any(map(is_running, pids)))


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ("exits", 0),
        ("exits_while_one_hangs", 0),
        ("exits_while_a_thread_has_their_lock", 0),
        ("raises", 7),
    ],
)
def test_the_interpreter_exits_in_silence(case, code):
    out = finish(start(HERE / "lives.py", case), code=code)
    all_ended(out.split())


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_end_with_a_killed_trainer(method):
    program = start(HERE / "lives.py", "waits", method)
    workers = program.stdout.readline().split()
    assert len(workers) == 2
    assert all(map(is_running, workers))
    os.kill(program.pid, signal.SIGKILL)
    program.communicate()
    all_ended(workers)


def test_ctrl_c_is_the_trainers_alone():
    """A terminal sends it to all processes."""
    program = start(HERE / "lives.py", "waits", "spawn")
    workers = program.stdout.readline().split()
    for pid in workers:
        os.kill(int(pid), signal.SIGINT)
    assert all(map(is_running, workers))
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate()
    assert errors.count("KeyboardInterrupt") == 1
    all_ended(workers)


def test_a_forked_child_leaves_workers_alone():
    # CPython 3.12 and newer warn of any fork of a process with threads.
    quiet = "ignore:This process:DeprecationWarning"
    finish(start("-W", quiet, HERE / "lives.py", "forks"))


def test_killed_at_random():
    out = finish(start(HERE / "kills.py", 8, 1))
    assert int(out.split()[0]) >= 8
