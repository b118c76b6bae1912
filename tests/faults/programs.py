"""Running the programs beside this file, each in a process of its own."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LIMIT_S = 240  # a program that takes longer hangs

_PATH = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
_ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(_PATH)}


def start(*arguments: Any) -> "subprocess.Popen[str]":
    """A Python with these arguments, beside the tests."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_ENVIRONMENT,
    )


def finish(program: "subprocess.Popen[str]", *, code: int = 0) -> str:
    """Return its output; it must end well and print nothing else."""
    try:
        out, errors = program.communicate(timeout=LIMIT_S)
    finally:
        program.kill()
    assert not errors, errors
    assert program.returncode == code, program.returncode
    return out


def run(code: str) -> str:
    """Return the output of a program of a few lines."""
    return finish(start("-c", textwrap.dedent(code)))
