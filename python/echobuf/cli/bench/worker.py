"""The process of one candidate: JSON lines in, JSON lines out.

Run as a file, by any Python 3.10 or newer, with the standard library alone: echobuf
need not be installed beside a peer. A target is a class with

- `packages`: names of the packages whose versions are reported (optional);
- `guarantees`: a mapping of its promises, for the result file (optional);
- `__init__(settings)`: imports and prepares; an `ImportError` names what is missing;
- `warm_up()`: untimed, once; checks the claims (optional);
- `begin()`: untimed, before each `run` (optional);
- `run()`: timed; does the work and returns the number of units done;
- `close()`: optional.

`busy_thread: true` in the settings keeps a pure-Python thread busy meanwhile.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import platform
import resource
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any


class BusyThread:
    """A thread that runs Python code for as long as the context lasts."""

    def __init__(self) -> None:
        self._stop = False

    def _spin(self) -> None:
        count = 0
        while not self._stop:
            count += 1

    def __enter__(self) -> None:
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop = True
        self._thread.join()


class Worker:
    """Handler of the parent's requests, which calls the candidate."""

    def __init__(self) -> None:
        self._candidate: Any = None
        self._settings: dict[str, Any] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Handle a request, and return the result or the failure."""
        try:
            method = getattr(self, "_" + request["do"])
            return {"ok": True, **method(**request.get("with", {}))}
        except ImportError as error:
            stage = "import" if request["do"] == "prepare" else request["do"]
            return _failure(stage, error)
        except BaseException as error:
            return _failure(request["do"], error)

    def _prepare(self, target: str, settings: dict[str, Any]) -> dict[str, Any]:
        module, _, name = target.partition(":")
        make = getattr(importlib.import_module(module), name)
        self._settings = settings
        self._candidate = make(settings)
        packages = getattr(make, "packages", ())
        return {
            "python": platform.python_version(),
            "versions": {package: _version(package) for package in packages},
            "guarantees": dict(getattr(make, "guarantees", {})),
        }

    def _warm_up(self) -> dict[str, Any]:
        if hasattr(self._candidate, "warm_up"):
            self._candidate.warm_up()
        return {}

    def _round(self) -> dict[str, Any]:
        if not self._settings.get("busy_thread"):
            return self._measured()
        with BusyThread():
            return self._measured()

    def _measured(self) -> dict[str, Any]:
        seconds, cpu_s, units = 0.0, 0.0, 0
        before = _usage()
        begin = getattr(self._candidate, "begin", None)
        for _ in range(self._settings.get("chunks", 1)):
            if begin is not None:
                begin()
            cpu_start, start = time.process_time(), time.perf_counter()
            units += self._candidate.run()
            seconds += time.perf_counter() - start
            cpu_s += time.process_time() - cpu_start
            if seconds >= self._settings.get("limit_s", 2.0):
                break
        minor, major, children_s = (
            now - then for now, then in zip(_usage(), before, strict=True)
        )
        return {
            "seconds": seconds,
            "cpu_s": cpu_s + children_s,
            "units": units,
            "minor_faults": minor,
            "major_faults": major,
            "peak_bytes": sum(_peak_bytes(pid) for pid in _family()),
        }

    def _stop(self) -> dict[str, Any]:
        if hasattr(self._candidate, "close"):
            self._candidate.close()
        return {}


def _text(error: BaseException) -> str:
    try:
        return str(error) or repr(error)
    except Exception:  # classes of a peer may raise in either
        return "an error without a text"


def _failure(stage: str, error: BaseException) -> dict[str, Any]:
    traceback.print_exc()  # standard error; the parent keeps it
    reason = " ".join(_text(error).split())
    return {"ok": False, "stage": stage, "reason": f"{type(error).__name__}: {reason}"}


def _version(package: str) -> str | None:
    """Return the version of a distribution, or of the one with this module name."""
    names = [package, *importlib.metadata.packages_distributions().get(package, ())]
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _family() -> list[int]:
    """Return the ids of this process and, where /proc has them, its descendants."""
    family = [os.getpid()]
    for pid in family:
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                family += map(int, path.read_text().split())
            except OSError:
                continue  # ended meanwhile
    return family


def _usage() -> tuple[int, int, float]:
    """Return minor and major faults, and processor seconds of the children alone."""
    minor, major, cpu_s = _children()
    own = resource.getrusage(resource.RUSAGE_SELF)
    return minor + own.ru_minflt, major + own.ru_majflt, cpu_s


def _children() -> tuple[int, int, float]:
    """Return minor and major faults and processor seconds of the descendants."""
    minor, major, ticks = 0, 0, 0
    for pid in _family()[1:]:
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()
        minor, major = minor + int(fields[7]), major + int(fields[9])
        ticks += int(fields[11]) + int(fields[12])
    return minor, major, ticks / os.sysconf("SC_CLK_TCK")


def _peak_bytes(pid: int) -> int:
    """Return the peak resident memory, without that from before the exec."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    if pid != os.getpid():
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Answer requests until standard input ends."""
    # Libraries print on standard output, so the answers use a copy of it.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    here = str(Path(__file__).parent)
    sys.path[:] = [*sys.argv[1:], *(p for p in sys.path if p not in ("", here))]
    worker = Worker()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(worker.answer(request)), file=answers, flush=True)
        if request["do"] == "stop":
            answers.close()
            sys.stdout.flush()
            os._exit(0)  # without waiting for threads and pools that a peer left behind


if __name__ == "__main__":
    main()
