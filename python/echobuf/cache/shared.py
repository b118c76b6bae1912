"""Memory that a process shares with its workers, forked and spawned ones alike."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Iterator
from multiprocessing import context, reduction
from typing import Any

from echobuf.errors import CapacityError
from echobuf.limits import explain


class SharedMemory:
    """Zeroed bytes without a name: they go with the last process that has them.

    A worker gets them by fork, or by being spawned with an object that holds them. A
    copy that is made otherwise (`copy.deepcopy`, a file) has bytes of its own, zeroed.

    Attributes:
        view: the bytes.

    Raises:
        CapacityError: the system does not give as much, or no descriptor.
    """

    def __init__(self, size: int, fd: int | None = None) -> None:
        self._size = size
        try:
            self._fd = _anonymous(size) if fd is None else fd
            try:
                self.view = memoryview(mmap.mmap(self._fd, size))
            except BaseException:
                os.close(self._fd)
                raise
        except OSError as error:
            clear = explain(error, "a cache", "keep fewer caches")
            if clear is not None:
                raise clear from error
            if error.errno not in (errno.EFBIG, errno.ENOMEM, errno.ENOSPC):
                raise
            raise CapacityError(
                f"a cache needs {size:,} bytes of memory that processes share, but the "
                f"system refused them: {error.strerror}. Make `max_bytes` smaller, or "
                "see which limits this process has (`ulimit -a`)."
            ) from error
        self._renew()
        weakref.finalize(self, os.close, self._fd).atexit = False
        _ALL.add(self)

    def _renew(self) -> None:
        """In a forked child: a thread of the parent may hold the lock for ever."""
        self._thread_lock = threading.Lock()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """While this holds, no other thread and no other process has it.

        One that is killed meanwhile gives it back.
        """
        with self._thread_lock:
            fcntl.lockf(self._fd, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._fd, fcntl.LOCK_UN)

    def __reduce__(self) -> tuple[Any, ...]:
        if context.get_spawning_popen() is None:
            return SharedMemory, (self._size,)
        return _inherit, (self._size, reduction.DupFd(self._fd))


def _anonymous(size: int) -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("echobuf-cache")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    try:
        os.ftruncate(fd, size)
    except OSError:
        os.close(fd)
        raise
    return fd


def _inherit(size: int, handle: Any) -> SharedMemory:
    return SharedMemory(size, handle.detach())


_ALL: weakref.WeakSet[SharedMemory] = weakref.WeakSet()


def _renew_all() -> None:
    for memory in list(_ALL):
        memory._renew()


os.register_at_fork(after_in_child=_renew_all)
