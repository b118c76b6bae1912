"""Running bench/gpu.sh and experiments/gpu.sh with a stand-in for python."""

import os
import shutil
import signal
import subprocess
from contextlib import contextmanager

from helpers import WAIT_S

# A stage says that it has begun, and ends; one with FAULTY in its command runs FAULT.
# With REAL, an interpreter, the others run. WHEELS are lines of what wheels.py prints.
_PYTHON = """#!/usr/bin/env bash
case "$*" in *has_gpu.py | "-m pip list") exit 0 ;; esac
case "$*" in *wheels.py*) printf "$WHEELS"; exit 0 ;; esac
echo "begun: $*"
[[ "$*" != *$FAULTY* ]] || eval "$FAULT"
[[ -z "$REAL" ]] || exec "$REAL" "$@"
"""
# `timeout -s SIGNAL -k 5 LIMIT COMMAND...`, PACE times as fast.
_TIMEOUT = """#!/usr/bin/env bash
[ "$1" = -s ] || exec {timeout} "$@"
exec {timeout} -s "$2" -k 1 "$(($5 / PACE)).5" "${{@:6}}"
"""


def executable(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


class Script:
    """A script with the stand-in; its time limits are a twentieth, or 1 / PACE.

    Attributes:
        tools: a folder that PATH begins with.
    """

    def __init__(self, script, tools):
        self._script = script
        self.tools = tools
        tools.mkdir()
        self._python = executable(tools / "python", _PYTHON)
        timeout = _TIMEOUT.format(timeout=shutil.which("timeout"))
        executable(tools / "timeout", timeout)
        executable(tools / "getconf", "#!/bin/sh\necho 16\n")  # cores

    def __call__(self, *arguments, **told):
        with self.begun(*arguments, **told) as process:
            process.wait(WAIT_S)
        return process.returncode

    @contextmanager
    def begun(self, *arguments, faulty="nothing is", fault="exit 1", **environment):
        """Start the script in a session of processes that ends with the context."""
        told = {
            "PYTHON": str(self._python),
            "PATH": f"{self.tools}:{os.environ['PATH']}",
            "FAULTY": faulty,
            "FAULT": fault,
            "REAL": "",
            "WHEELS": "",
            "PACE": "20",
            "PYTHONUNBUFFERED": "",
            "PYTHONFAULTHANDLER": "",
        }
        # Where the tests run in the background, they ignore SIGINT.
        bash = ("env", "--default-signal=INT", "bash")
        process = subprocess.Popen(
            [*bash, self._script, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **told, **environment},
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def summary(out):
    """Return the outcome of each stage, without its seconds."""
    lines = (out / "summary.txt").read_text().splitlines()
    told = dict(line.removeprefix("== ").split(": ", 1) for line in lines)
    return {name: text.partition(",")[0] for name, text in told.items()}
