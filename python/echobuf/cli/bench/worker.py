"""The process of one candidate, which answers the requests of `rounds`.

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

import contextlib
import importlib
import importlib.metadata
import os
import platform
import resource
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def busy_thread() -> Iterator[None]:
    """Keep a thread busy with Python code for as long as the context lasts."""
    stopped = False

    def spin() -> None:
        count = 0
        while not stopped:
            count += 1

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped = True
        thread.join()


class Worker:
    """Handler of the parent's requests, which calls the candidate."""

    def __init__(self) -> None:
        self._candidate: Any = None
        self._settings: dict[str, Any] = {}

    def answer(self, do: str, arguments: dict[str, Any]) -> tuple[str, Any]:
        """Handle a request; return `"", answer`, or the failed stage and the reason."""
        try:
            if do in ("prepare", "round"):
                return "", getattr(self, f"_{do}")(**arguments)
            self._call(do)
            return "", {}
        except BaseException as error:
            traceback.print_exc()  # the parent reads the last line
            absent = do == "prepare" and isinstance(error, ImportError)
            reason = " ".join(_text(error).split())
            return "import" if absent else do, f"{type(error).__name__}: {reason}"

    def _call(self, name: str) -> None:
        """Call an optional method of the candidate."""
        getattr(self._candidate, name, lambda: None)()

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

    def _round(self) -> dict[str, Any]:
        is_busy = self._settings.get("busy_thread")
        with busy_thread() if is_busy else contextlib.nullcontext():
            return self._measured()

    def _measured(self) -> dict[str, Any]:
        seconds, cpu_s, units = 0.0, 0.0, 0
        before = _usage()
        for _ in range(self._settings.get("chunks", 1)):
            self._call("begin")
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
            "peak_bytes": sum(map(_peak_bytes, _family())),
        }


def _text(error: BaseException) -> str:
    try:
        return str(error) or repr(error)
    except Exception:  # classes of a peer may raise in either
        return "an error without a text"


def _version(package: str) -> str | None:
    """Return the version of a distribution, or of the one with this module name."""
    names = [package, *importlib.metadata.packages_distributions().get(package, ())]
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return None


def _family() -> list[int]:
    """Return the ids of this process and, where /proc has them, its descendants."""
    family = [os.getpid()]
    for pid in family:
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # ended meanwhile
                family += map(int, path.read_text().split())
    return family


def _usage() -> tuple[int, int, float]:
    """Return minor and major faults, and processor seconds of the descendants alone."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    minor, major, ticks = own.ru_minflt, own.ru_majflt, 0
    for pid in _family()[1:]:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            minor, major = minor + int(fields[7]), major + int(fields[9])
            ticks += int(fields[11]) + int(fields[12])
    return minor, major, ticks / os.sysconf("SC_CLK_TCK")


def _peak_bytes(pid: int) -> int:
    """Return the peak resident memory, without that from before the exec."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    if pid != os.getpid():
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Answer requests until the parent says to close, or is gone."""
    pipe = Connection(int(sys.argv[1]))
    here = str(Path(__file__).parent)
    sys.path[:] = [*sys.argv[2:], *(p for p in sys.path if p not in ("", here))]
    worker, do = Worker(), ""
    while do != "close":
        do, arguments = pipe.recv()
        pipe.send(worker.answer(do, arguments))
    sys.stdout.flush()
    os._exit(0)  # without waiting for threads and pools that a peer left behind


if __name__ == "__main__":
    with contextlib.suppress(EOFError):
        main()
