"""Few descriptors or threads, and how many are open: for a process of its own."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import threading
from collections.abc import Callable, Iterator
from typing import Any

LIMIT = 256


def count() -> int:
    """Descriptors that are open, once what nobody holds is closed."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")) - 1


@contextlib.contextmanager
def few(left: int) -> Iterator[None]:
    """So many more can be opened."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, limits[1]))
    taken = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        for _ in range(left):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for each in taken:
            os.close(each)


@contextlib.contextmanager
def no_threads(skip: int = 0) -> Iterator[None]:
    """No more than so many can be started."""
    start, left = threading.Thread.start, [skip]

    def refuse(thread: threading.Thread) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    threading.Thread.start = refuse  # type: ignore[method-assign]
    try:
        yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]


@contextlib.contextmanager
def no_native_threads() -> Iterator[None]:
    """None of native code can be started, for want of a stack; Python's can."""
    stack = threading.stack_size(2**18)
    with open("/proc/self/statm") as sizes:
        used = int(sizes.read().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 6 * 2**20, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        threading.stack_size(stack)


def until_enough(attempt: Callable[[], Any], most: int = 64) -> int:
    """Tries with 0, 1, ... descriptors; how many were enough.

    Each failure is a clear error, and leaves none open.
    """
    import echobuf

    attempt()  # what is opened once and kept, is
    before = count()
    for left in range(most):
        said = ""
        try:
            with few(left):
                attempt()
        except echobuf.CapacityError as error:
            said = str(error)
        if not said:
            return left
        assert "`ulimit -n`" in said, said
        assert f"{LIMIT}" in said, said
        assert count() == before, f"with {left}: {count() - before} are left open"
    raise AssertionError(f"{most} were not enough")
