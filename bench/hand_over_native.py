"""The native side of hand_over.py: builds bench/cpp and calls it."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
BUILD = HERE.parent / "build" / "hand_over"

QUEUES = {
    "echobuf": "many producers, one consumer at a time; in order; bounded; sleeps and "
    "wakes; closes; records of a size chosen at run time",
    "boost queue": "many producers and consumers; in order; bounded; cannot sleep",
    "boost spsc": "one producer, one consumer; in order; bounded; cannot sleep",
    "boost queue + semaphores": "boost queue that sleeps and wakes",
    "mutex + condition variables": "many producers and consumers; in order; bounded; "
    "sleeps and wakes",
}
_REFUSALS = {
    -2: "the records that came are not those that were sent",
    -3: "no such queue",
}


class Native:
    """The library, built afresh. ctypes gives up the GIL during its calls."""

    def __init__(self) -> None:
        configure = ["cmake", "-S", str(HERE / "cpp"), "-B", str(BUILD)]
        subprocess.run([*configure, "-DCMAKE_BUILD_TYPE=Release"], check=True)
        subprocess.run(["cmake", "--build", str(BUILD)], check=True)
        self._call = ctypes.CDLL(str(BUILD / "libhand_over.so")).hand_over_run
        self._call.restype = ctypes.c_int64
        self._call.argtypes = [
            ctypes.c_char_p,
            ctypes.c_int64,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_int64,
            ctypes.c_int64,
            ctypes.c_void_p,
        ]

    def can(self, queue: str, producers: int, sleep: bool) -> bool:
        """Return whether a queue supports the case."""
        return self._call(queue.encode(), 8, producers, sleep, 2, 0, None) != -1

    def run(
        self, queue: str, size: int, producers: int, sleep: bool, count: int
    ) -> int:
        """Time `count` records, in nanoseconds; on one thread without producers."""
        return self._checked(queue.encode(), size, producers, sleep, count, 0, None)

    def latencies_ns(
        self, queue: str, size: int, sleep: bool, count: int, period_ns: int
    ) -> np.ndarray[Any, Any]:
        """Return the latency of each of `count` records, sent one at a time."""
        got = np.zeros(count, np.int64)
        address = got.ctypes.data
        self._checked(queue.encode(), size, 1, sleep, count, period_ns, address)
        return got

    def _checked(self, *arguments: Any) -> int:
        ns = int(self._call(*arguments))
        if ns < 0:
            raise RuntimeError(_REFUSALS.get(ns, f"code {ns}"))
        return ns


def versions() -> dict[str, str | None]:
    """Return the versions of Boost and of the compiler."""
    return {"boost": _boost(), "compiler": _first_line("c++", "--version")}


def _first_line(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip().partition("\n")[0]


def _boost() -> str | None:
    header = Path("/usr/include/boost/version.hpp")
    if not header.exists():
        return None
    for line in header.read_text().splitlines():
        if line.startswith("#define BOOST_LIB_VERSION"):
            return line.split('"')[1].replace("_", ".")
    return None
