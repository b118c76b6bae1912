"""What all benchmarks share: interleaved rounds, medians, and a result file.

A benchmark compares candidates side by side in one run. Each round calls every
candidate once, in an order that rotates, so that a drift of the machine meets all
alike; what is reported is the median over rounds, and ratios of medians.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def interleave(
    candidates: Mapping[str, Callable[[], float]], rounds: int, warm_up: int = 2
) -> dict[str, list[float]]:
    """Calls every candidate once a round; each returns the seconds it took."""
    names = list(candidates)
    times: dict[str, list[float]] = {name: [] for name in names}
    for index in range(warm_up + rounds):
        shift = index % len(names)
        for name in names[shift:] + names[:shift]:
            seconds = candidates[name]()
            if index >= warm_up:
                times[name].append(seconds)
    return times


def timed(call: Callable[[], object], repeat: int = 1) -> Callable[[], float]:
    """A candidate that calls `call` `repeat` times; seconds a call."""

    def candidate() -> float:
        start = time.perf_counter()
        for _ in range(repeat):
            call()
        return (time.perf_counter() - start) / repeat

    return candidate


def summarise(times: Mapping[str, list[float]]) -> dict[str, dict[str, float]]:
    """Median, minimum and maximum of each candidate, in seconds."""
    return {
        name: {
            "median_s": statistics.median(values),
            "min_s": min(values),
            "max_s": max(values),
        }
        for name, values in times.items()
    }


def environment() -> dict[str, Any]:
    """Commit, machine and versions, for the result file."""
    packages = ("echobuf", "numpy", "torch", "optree")
    return {
        "commit": _git("rev-parse", "--short", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--", ".")),
        "date": time.strftime("%Y-%m-%d"),
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in packages},
        "command": " ".join(["python", *sys.argv]),
    }


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def parser(description: str) -> argparse.ArgumentParser:
    """A parser with the options that every benchmark has."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--rounds", type=int, default=15, help="rounds measured")
    options.add_argument(
        "--out", type=Path, default=RESULTS, help="folder of the result file"
    )
    return options


def write(name: str, out: Path, figures: Mapping[str, Any]) -> Path:
    """Writes the result file and says where."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.json"
    content = {"environment": environment(), **figures}
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"written: {path}")
    return path
