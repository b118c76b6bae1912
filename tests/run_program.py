"""Programs that tests run in processes of their own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

LIMIT_S = 240


def run_program(command: Sequence[object], names: Mapping[str, str]) -> str:
    """Run a program to its end and return its output, which a failure shows.

    Args:
        command: the program and its arguments.
        names: what its environment has besides this process's.
    """
    ran = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **names},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert ran.returncode == 0, ran.stdout[-6000:]
    return ran.stdout
