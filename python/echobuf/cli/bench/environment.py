"""Where figures were taken: commit, machine, versions, command."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from echobuf.cli.machine import cpu_name

__all__ = ["environment"]

_FRAMEWORKS = (
    "numpy",
    "optree",
    "torch",
    "torchvision",
    "torchdata",
    "jax",
    "cupy",
    "pyarrow",
    "datasets",
    "webdataset",
    "sklearn",
)

# Result files that a run before this one has written are no change of the code.
_RESULTS = (":!bench/results", ":!experiments/results")
_CHANGES = ("status", "--porcelain", "--", ".", *_RESULTS)


def environment() -> dict[str, Any]:
    """Commit, machine, versions and command, for a result file.

    The commit is that of the checkout in which this module lies, or else the script
    that runs; `None` where both are installed without one.
    """
    return {
        "commit": _git("rev-parse", "--short", "HEAD"),
        "uncommitted_changes": bool(_git(*_CHANGES)),
        "date": time.strftime("%Y-%m-%d"),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "load_average": _load(),
        "python": platform.python_version(),
        "versions": _versions(),
        "command": shlex.join(_command()),
    }


def _versions() -> dict[str, str]:
    """Versions of the frameworks that are imported, by their modules."""
    imported = (name for name in _FRAMEWORKS if name in sys.modules)
    return {
        name: str(getattr(sys.modules[name], "__version__", "")) for name in imported
    }


def _command() -> list[str]:
    """The command as it is typed, wherever the package and its command lie."""
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
        try:
            # An installed copy inside somebody's repository is not part of that one.
            _run(here, "ls-files", "--error-unmatch", file.name)
            top = _run(here, "rev-parse", "--show-toplevel")
            return _run(Path(top), *arguments)
        except (OSError, subprocess.CalledProcessError):
            continue
    return None


def _run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None
