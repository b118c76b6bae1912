"""The tests themselves, started in the background, where SIGINT is ignored."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
import conftest
show = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
exec(show)
subprocess.run([sys.executable, "-c", show], check=True)
"""


@pytest.mark.host
def test_neither_they_nor_their_processes_ignore_ctrl_c():
    done = subprocess.run(
        [sys.executable, "-u", "-c", PROGRAM],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "False"]
