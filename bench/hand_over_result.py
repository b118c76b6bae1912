"""The result file of hand_over.py, in the form of the others in results/."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def _first_line(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip().partition("\n")[0]


def _git(*arguments: str) -> str | None:
    return _first_line("git", "-C", str(Path(__file__).parent), *arguments)


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _boost() -> str | None:
    header = Path("/usr/include/boost/version.hpp")
    if not header.exists():
        return None
    for line in header.read_text().splitlines():
        if line.startswith("#define BOOST_LIB_VERSION"):
            return line.split('"')[1].replace("_", ".")
    return None


def _environment() -> dict[str, Any]:
    return {
        "commit": _git("rev-parse", "--short", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--", ".")),
        "date": time.strftime("%Y-%m-%d"),
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": {
            "numpy": importlib.metadata.version("numpy"),
            "boost": _boost(),
            "compiler": _first_line("c++", "--version"),
        },
        "command": " ".join(["python", *sys.argv]),
    }


def write(name: str, out: Path, figures: Mapping[str, Any]) -> None:
    """Writes the result file and says where."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.json"
    content = {"environment": _environment(), **figures}
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"written: {path}")
