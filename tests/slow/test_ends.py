"""A random part of the matrix of orderly ends, and the cells that ever failed.

`tests/ends/run.py` runs all of it; a failure prints the command that repeats its cell.
"""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")  # of the ranks

HERE = Path(__file__).parents[1] / "ends"
SECONDS = 10
SEED = int(os.environ.get("ENDS_SEED", datetime.date.today().toordinal()))


def run(*arguments: object) -> None:
    """Run cells; what they print is the report of a failure."""
    done = subprocess.run(
        [sys.executable, str(HERE / "run.py"), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=240,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, f"seed {SEED}\n{done.stdout}"


def test_random_cells():
    run("--some", SECONDS, "--seed", SEED)


def test_cells_that_have_failed():
    """Each with the seed with which it did."""
    run("--known")


def test_ranks_on_a_server_are_killed():
    run_storm = [sys.executable, str(HERE / "storm.py"), "4", str(SEED)]
    done = subprocess.run(
        run_storm, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, f"seed {SEED}\n{done.stdout}{done.stderr}"
    assert done.stderr == ""
