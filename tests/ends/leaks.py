"""Descriptors, threads and processes that a loader, a job or a server left behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
import time

WAIT_S = 15.0


def files() -> dict[str, int]:
    """Return what this process has open, and how many of each kind."""
    found: dict[str, int] = {}
    for each in os.listdir("/proc/self/fd"):
        try:
            link = os.readlink(f"/proc/self/fd/{each}")
        except OSError:  # the one that lists
            continue
        kind = link.partition("[")[0] if link.startswith(("socket:", "pipe:")) else link
        found[kind] = found.get(kind, 0) + 1
    return found


def _left(before: dict[str, int]) -> list[str]:
    gc.collect()
    # The beat of a rank goes on as long as its process group is there.
    threads = [
        each.name
        for each in threading.enumerate()
        if "echobuf" in each.name and each.name != "echobuf-beat"
    ]
    children = [each.name for each in multiprocessing.active_children()]
    now = files()
    # multiprocessing's own tracker has a pipe until the interpreter exits.
    more = [
        f"{link} x{count - before.get(link, 0)}"
        for link, count in now.items()
        if count > before.get(link, 0) + (link == "pipe:")
    ]
    return threads + children + more


def check(before: dict[str, int]) -> None:
    """Wait until no thread, child or descriptor of echobuf's is left.

    Args:
        before: what `files` said at the start.
    """
    end = time.monotonic() + WAIT_S
    while left := _left(before):
        assert time.monotonic() < end, f"left behind: {left}"
        time.sleep(0.01)
