"""Errors for what the system gives no more of: descriptors, threads and processes."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterator

from echobuf.describe_error import message
from echobuf.errors import CapacityError, EchobufError

_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_NO_THREAD = "can't start new thread"  # of Python


@contextlib.contextmanager
def enough(what: str, change: str) -> Iterator[None]:
    """Turn errors for too few descriptors, threads or processes into a clear one.

    An error of echobuf's says what it is itself, and is passed on.

    Args:
        what: needs them.
        change: what else a caller can do, as an imperative.

    Raises:
        CapacityError: there are too few.
    """
    with enough_threads(what, change):
        try:
            yield
        except EchobufError:
            raise
        except (OSError, RuntimeError) as error:
            clear = explain(error, what, change)
            if clear is None:
                raise
            raise clear from error


@contextlib.contextmanager
def enough_threads(what: str, change: str) -> Iterator[None]:
    """Turn errors for too few threads or processes into a clear one, as `enough`."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        if not _is_about_threads(error):
            raise
        raise CapacityError(
            f"{what} needs a thread or a process, and the system starts no more: see "
            f"`ulimit -u`, `pids.max` of the container, and the memory. End others, "
            f"raise the limit, or {change}."
        ) from error


def explain(error: BaseException, what: str, change: str) -> CapacityError | None:
    """Return the clear error for one of the system's, if it is about descriptors."""
    if not is_about_descriptors(error):
        return None
    return CapacityError(
        f"{what} needs file descriptors, and {_descriptors(error)}. Close files "
        f"and connections that are not needed, raise the limit, or {change}."
    )


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
    # Those of the core and of LMDB have no number. Others are not this process's own:
    # upstream may quote what another machine said.
    is_lmdb = type(error).__module__ == "lmdb"
    if type(error) is not RuntimeError and not is_lmdb:
        return False
    return any(os.strerror(number) in message(error) for number in _DESCRIPTORS)


def _is_about_threads(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.EAGAIN
    if type(error) is not RuntimeError:
        return False
    # A `std::thread` of the core that cannot start says the latter.
    return any(
        said in message(error) for said in (_NO_THREAD, os.strerror(errno.EAGAIN))
    )


def _descriptors(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno == errno.ENFILE:
        return "all that this machine allows are open (`sysctl fs.file-max`)"
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"all {most:,} that this process may have are open (`ulimit -n`)"
