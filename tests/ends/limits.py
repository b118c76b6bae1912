"""Taking descriptors, memory, threads or disk from this process for a while."""

from __future__ import annotations

import contextlib
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WORDS = {
    "files": ("too many open files", "descriptor", "emfile"),
    "memory": ("memory", "allocate", "new thread"),  # whose stack is memory
    "threads": ("thread",),
    "disk": ("file too large", "disk", "spill", "fit"),
}
"""Of an error that is due to it, one at least is in the text."""


@contextlib.contextmanager
def taken(end: str, slack: int) -> Iterator[None]:
    """Leave this process without the resource.

    Args:
        end: "files", "memory", "threads" or "disk".
        slack: bytes of memory, or of a file, that may still be had.
    """
    if end == "threads":
        with _no_threads():
            yield
        return
    kind, soft = {
        "files": lambda: (resource.RLIMIT_NOFILE, _first_free()),
        "memory": lambda: (resource.RLIMIT_AS, _address_space() + slack),
        "disk": lambda: (resource.RLIMIT_FSIZE, 4096),
    }[end]()
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


@contextlib.contextmanager
def _no_threads() -> Iterator[None]:
    names = ("_start_new_thread", "_start_joinable_thread")
    before = {name: getattr(threading, name, None) for name in names}

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("can't start new thread")

    for name in names:
        if before[name] is not None:
            setattr(threading, name, refuse)
    try:
        yield
    finally:
        for name, start in before.items():
            if start is not None:
                setattr(threading, name, start)


def _first_free() -> int:
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    return free


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGESIZE")
