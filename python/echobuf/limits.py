"""Errors for what the system gives no more of: descriptors, threads and processes."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterator

from echobuf.describe_error import message
from echobuf.errors import CapacityError

_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_NO_THREAD = "can't start new thread"  # of Python


@contextlib.contextmanager
def enough(what: str, change: str) -> Iterator[None]:
    """Turn errors for too few descriptors, threads or processes into a clear one.

    Args:
        what: needs them.
        change: what else a caller can do, as an imperative.

    Raises:
        CapacityError: there are too few.
    """
    try:
        yield
    except CapacityError:
        raise
    except (OSError, RuntimeError) as error:
        clear = explain(error, what, change)
        if clear is None:
            raise
        raise clear from error


def explain(error: BaseException, what: str, change: str) -> CapacityError | None:
    """Return the clear error for one of the system's, if it is about a limit."""
    if is_about_descriptors(error):
        return CapacityError(
            f"{what} needs file descriptors, and {_descriptors(error)}. Close files "
            f"and connections that are not needed, raise the limit, or {change}."
        )
    is_process = isinstance(error, OSError) and error.errno == errno.EAGAIN
    if is_process or (type(error) is RuntimeError and str(error) == _NO_THREAD):
        return CapacityError(
            f"{what} needs a thread or a process, and the system starts no more: see "
            f"`ulimit -u`, `pids.max` of the container, and the memory. End others, "
            f"raise the limit, or {change}."
        )
    return None


def check_descriptors(count: int = 1) -> None:
    """Raise an `OSError` if fewer are left, before a call that would not say why."""
    opened: list[int] = []
    try:
        for _ in range(count):
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    finally:
        for each in opened:
            os.close(each)


def is_about_descriptors(error: BaseException) -> bool:
    """Say whether an error of the system's is for want of descriptors."""
    if isinstance(error, OSError):
        return error.errno in _DESCRIPTORS
    # Those of LMDB and of the core have no number.
    return any(os.strerror(number) in message(error) for number in _DESCRIPTORS)


def _descriptors(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno == errno.ENFILE:
        return "all that this machine allows are open (`sysctl fs.file-max`)"
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"all {most:,} that this process may have are open (`ulimit -n`)"
