"""Resources of the system: threads, descriptors, sockets; their owners, and their lack.

`Closing` and `Uncopied` are bases of objects that own some. A forked child closes the
sockets and locks that were tracked: in a child they would stay open when this process
is gone, and its peers would wait for an answer.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import resource
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from echobuf.errors import CapacityError, EchobufError, message

if TYPE_CHECKING:
    import socket

_SLICE_S = 0.1
_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_NO_THREAD = "can't start new thread"  # of Python

_Member = TypeVar("_Member")
_Self = TypeVar("_Self", bound="Closing")


class Closing(ABC):
    """A context manager that is closed at the end of its `with`."""

    @abstractmethod
    def close(self) -> None:
        """End it and release what it holds."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Uncopied:
    """Base of what has threads and memory: `copy` and `pickle` raise `TypeError`."""

    _called = "an EchoLoader"
    _remedy = (
        "Make another one around the same data, in the process that uses it, and load "
        "this one's `state_dict()` into it."
    )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self._called} cannot be copied or pickled: it has memory and threads of "
            f"its own. {self._remedy}"
        )


class SharedGenerator(Uncopied, Iterator[Any]):
    """An iterator over a generator that several threads may draw from.

    Each item goes to one of them: a generator itself raises `ValueError` in a thread
    that asks while another one is in it. An error of echobuf that ends the generator is
    raised by every later call, for a generator raises it once.
    """

    _called = "an iterator of an EchoLoader"

    def __init__(self, items: Iterator[Any]) -> None:
        self._items = items
        self._error: EchobufError | None = None  # that has ended it
        # Reentrant: a signal handler that draws gets Python's error, and no deadlock.
        self._drawing = threading.RLock()

    def __next__(self) -> Any:
        with self._drawing:
            if self._error is not None:
                raise _again(self._error)
            try:
                return next(self._items)
            except EchobufError as error:
                self._error = _again(error)
                raise


def _again(error: EchobufError) -> EchobufError:
    """Return an equal error without frames, for another thread to raise."""
    other = type(error)(*error.args)
    other.__cause__ = error.__cause__
    return other


def members(weak: weakref.WeakSet[_Member]) -> list[_Member]:
    """Return what a weak set holds, though other threads add to it meanwhile."""
    while True:
        try:
            return list(weak)
        except RuntimeError:  # it has changed size during the iteration
            continue


_open: weakref.WeakSet[socket.socket | io.FileIO] = weakref.WeakSet()


def track(opened: socket.socket | io.FileIO) -> None:
    """Close it in forked children."""
    _open.add(opened)


def _close_all() -> None:
    for each in members(_open):
        each.close()


os.register_at_fork(after_in_child=_close_all)


def receive(
    connection: socket.socket, size: int, end: float | None = None
) -> bytearray:
    """Return `size` bytes from a socket, or fewer if the peer has closed it.

    Args:
        connection: its timeout limits each wait; it is changed if `end` is given.
        size: number of bytes.
        end: time, as `time.monotonic()`, at which all must have come; None: any.
    """
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        if end is not None:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{got} of {size} bytes came in time")
            connection.settimeout(left)
        count = connection.recv_into(view[got:])
        if count == 0:
            break
        got += count
    return data if got == size else data[:got]


class Signal:
    """An event that is set once, which Ctrl-C cannot break.

    A `KeyboardInterrupt` inside `threading.Event`, which is written in Python, leaves
    its lock taken, and every thread that comes after blocks. The methods of the lock
    here are those of C: they are done or not.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def is_set(self) -> bool:
        """Return whether it was set."""
        return self._is_set

    def set(self) -> None:
        """Set it, and wake the threads that wait."""
        self._is_set = True
        self._pass_on()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set; return whether it is."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._is_set:
            left = _SLICE_S if end is None else min(_SLICE_S, end - time.monotonic())
            if left <= 0:
                break
            # In slices: a waiter that is interrupted here passes nothing on.
            if self._lock.acquire(timeout=left):
                self._pass_on()
        return self._is_set

    def _pass_on(self) -> None:
        with contextlib.suppress(RuntimeError):  # another thread has done so
            self._lock.release()


class DaemonThread(threading.Thread):
    """A daemon that is joined until its target has returned.

    Up to Python 3.12 a `KeyboardInterrupt` that is raised in `Thread.join(timeout)`
    marks a running thread as ended: `is_alive` is false from then on, and `join`
    returns at once. One that is raised in `Thread.start` may keep the thread from
    calling its target for ever: that thread counts as not alive.
    """

    def __init__(
        self, target: Callable[..., Any], args: tuple[Any, ...] = (), *, name: str
    ) -> None:
        super().__init__(target=target, args=args, name=name, daemon=True)
        self._has_begun = False
        self._returned = Signal()
        self._process = os.getpid()

    def start(self) -> None:
        """Start the thread; once this returns it is alive."""
        super().start()
        self._has_begun = True

    def run(self) -> None:
        """Call the target."""
        self._has_begun = True
        try:
            super().run()
        finally:
            self._returned.set()

    def is_alive(self) -> bool:
        """Return whether the target was called, here, and has not returned."""
        is_here = self._has_begun and self._process == os.getpid()
        return is_here and not self._returned.is_set()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the target to return; Ctrl-C gets through."""
        if self is threading.current_thread():
            raise RuntimeError("cannot join current thread")
        if self.is_alive():
            self._returned.wait(timeout)


@contextlib.contextmanager
def enough(what: str, change: str) -> Iterator[None]:
    """Turn errors for too few descriptors, threads or processes into a clear one.

    It does so with those for files that may not be so large, as is memory that
    processes share. An error of echobuf's says what it is itself, and is passed on.

    Args:
        what: needs them.
        change: what else a caller can do, as an imperative.
    """
    with enough_threads(what, change):
        try:
            yield
        except EchobufError:
            raise
        except (OSError, RuntimeError) as error:
            clear = explain(error, what, change) or _explain_file_size(error, what)
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
    # Those of the core have no number. Others are not this process's own: upstream may
    # quote what another machine said.
    if type(error) is not RuntimeError:
        return False
    return any(os.strerror(number) in message(error) for number in _DESCRIPTORS)


def _explain_file_size(error: BaseException, what: str) -> CapacityError | None:
    """Return the clear error for one of the system's, if it is about `ulimit -f`."""
    if isinstance(error, OSError):
        is_about = error.errno == errno.EFBIG
    else:  # that of the core has no number
        text = f"shared memory: {os.strerror(errno.EFBIG)}"
        is_about = type(error) is RuntimeError and message(error) == text
    if not is_about:
        return None
    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = "unlimited by now" if most == resource.RLIM_INFINITY else f"{most:,} bytes"
    return CapacityError(
        f"{what} needs a file, or memory that processes share, which is larger than "
        f"this process may make a file: {limit} (`ulimit -f`; the system says: "
        f"{os.strerror(errno.EFBIG)}). Raise the limit."
    )


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
