"""Environment in which figures are taken: commit, machine, versions, command."""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_FRAMEWORKS = (
    *("numpy", "optree", "torch", "torchvision", "torchdata", "jax", "cupy"),
    *("pyarrow", "datasets", "webdataset", "sklearn"),
)
# Result files of earlier runs do not count as changes of the code.
_RESULTS = (":!bench/results", ":!experiments/results")
_CHANGES = ("status", "--porcelain", "--", ".", *_RESULTS)


def environment() -> dict[str, Any]:
    """Return commit, machine, versions and command, for a result file.

    The commit is the one checked out where this module lies, or else the script that
    runs; `None` where neither is in a checkout.
    """
    load = None
    with contextlib.suppress(OSError):
        load = os.getloadavg()[0]
    return {
        "commit": _git("rev-parse", "--short", "HEAD"),
        "uncommitted_changes": bool(_git(*_CHANGES)),
        "date": time.strftime("%Y-%m-%d"),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "load_average": load,
        "python": platform.python_version(),
        "versions": {
            name: str(getattr(sys.modules[name], "__version__", ""))
            for name in _FRAMEWORKS
            if name in sys.modules
        },
        "command": shlex.join(_command()),
    }


def _command() -> list[str]:
    """Return the command line as typed, without the paths of Python and package."""
    program, *arguments = sys.argv
    path = Path(program)
    if path.name == "__main__.py":
        return ["python", "-m", path.parent.name, *arguments]
    if path.is_absolute():
        return [*(["python"] if path.suffix else []), path.name, *arguments]
    return ["python", program, *arguments]


def _git(*arguments: str) -> str | None:
    for file in (Path(__file__), Path(sys.argv[0])):
        here = file.resolve().parent
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            # An installed copy inside another repository is not part of that one.
            _run(here, "ls-files", "--error-unmatch", file.name)
            top = _run(here, "rev-parse", "--show-toplevel")
            return _run(Path(top), *arguments)
    return None


def _run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def cpu_name() -> str:
    """Return the system's name of the processor."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
