"""Items in memory, and counters, that a process shares with its workers."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from multiprocessing import context, reduction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echobuf.cache.items import EncodedItem, ItemEncoder, align, is_valid
from echobuf.capacity import available_bytes
from echobuf.errors import CapacityError
from echobuf.resources import explain, members

_SLOTS = 1024  # processes that count at once
USED, ENTRIES = 0, 2  # indices of words in the table; an entry has two


class SharedMemory:
    """Zeroed bytes without a name, which go with the last process that has them.

    A worker gets them by fork, or by being spawned with an object that holds them. A
    copy that is made otherwise (`copy.deepcopy`, a file) has other bytes, zeroed.
    """

    def __init__(self, size: int, fd: int | None = None) -> None:
        self._size = size
        try:
            self._fd = _open_anonymous(size) if fd is None else fd
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
        self.renew_lock()
        weakref.finalize(self, os.close, self._fd).atexit = False
        _all.add(self)

    def renew_lock(self) -> None:
        """Make a new lock, in a forked child: a thread of the parent may hold it."""
        self.thread_lock = threading.Lock()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude all other threads and processes.

        The system releases the lock of a process that is killed.
        """
        with self.thread_lock:
            fcntl.lockf(self._fd, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._fd, fcntl.LOCK_UN)

    def fileno(self) -> int:
        """Return the file descriptor of the bytes."""
        return self._fd

    def __reduce__(self) -> tuple[Any, ...]:
        if context.get_spawning_popen() is None:
            return SharedMemory, (self._size,)
        return _inherit, (self._size, reduction.DupFd(self._fd))


def _open_anonymous(size: int) -> int:
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


_all: weakref.WeakSet[SharedMemory] = weakref.WeakSet()


def _renew_locks() -> None:
    for memory in members(_all):
        memory.renew_lock()


os.register_at_fork(after_in_child=_renew_locks)


class SharedCounters:
    """Counts, such as those of hits and misses, that several processes add to.

    Each process counts in its slot. The slot of a process that has ended goes to
    another one, which counts on from there: the sums stay right.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._width = 1 + len(names)  # words: the process that counts here, its counts
        self.memory = SharedMemory(_SLOTS * self._width * 8)
        self._attach()

    def _attach(self) -> None:
        self._words = self.memory.view.cast("Q")
        self.lock = threading.Lock()
        self._process = 0

    def __getstate__(self) -> tuple[tuple[str, ...], SharedMemory]:
        return self._names, self.memory

    def __setstate__(self, state: tuple[tuple[str, ...], SharedMemory]) -> None:
        self._names, self.memory = state
        self._width = 1 + len(self._names)
        self._attach()

    def add(self, **counts: int) -> None:
        """Add to the counts, by their names."""
        if self._process != os.getpid():
            self._claim_slot()
        with self.lock:
            for name, count in counts.items():
                self._words[self._slot + 1 + self._names.index(name)] += count

    def sums(self) -> dict[str, int]:
        """Return the sum of each count over all processes."""
        return {
            name: sum(self._words[at :: self._width])
            for at, name in enumerate(self._names, start=1)
        }

    def _claim_slot(self) -> None:
        with self.memory.locked():
            if self._process == os.getpid():
                return  # another thread was faster
            slots = range(0, _SLOTS * self._width, self._width)
            self._slot = next((at for at in slots if self._is_free(at)), slots[-1])
            self._words[self._slot] = os.getpid()
            self.lock = threading.Lock()  # a thread of the parent may hold the old one
            self._process = os.getpid()

    def _is_free(self, at: int) -> bool:
        owner = self._words[at]
        if owner in (0, os.getpid()):
            return True
        try:
            os.kill(owner, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return False


class MemoryStore:
    """A table of each item's offset and size, and behind it the encoded items.

    An entry is written after its item: an item that a killed worker has half written is
    never found. Readers take no lock; they check the bytes that they have copied.
    """

    read_only = False

    def __init__(self, count: int, max_bytes: int) -> None:
        available = available_bytes()
        if max_bytes > available:
            raise CapacityError(
                f"`max_bytes` is {max_bytes:,}, but this machine has {available:,} "
                "bytes of memory available. Make it smaller, or give a `directory` to "
                "cache on disk."
            )
        self._count = count
        self._max_bytes = max_bytes
        self._start = align((ENTRIES + 2 * count) * 8)
        self.memory = SharedMemory(self._start + align(max_bytes))
        self._map()

    def _map(self) -> None:
        self._bytes = self.memory.view
        self._table = self._bytes[: self._start].cast("Q")

    def __getstate__(self) -> tuple[int, int, int, SharedMemory]:
        return self._count, self._max_bytes, self._start, self.memory

    def __setstate__(self, state: tuple[int, int, int, SharedMemory]) -> None:
        self._count, self._max_bytes, self._start, self.memory = state
        self._map()

    def get_all(self, numbers: Sequence[int]) -> list[bytearray | None]:
        """Return copies of stored items, damaged or not; None for those not stored."""
        return [self._get(number) for number in numbers]

    def _get(self, number: int) -> bytearray | None:
        entry = ENTRIES + 2 * number
        begin, size = self._table[entry], self._table[entry + 1]
        return bytearray(self._bytes[begin : begin + size]) if begin else None

    def free_bytes(self) -> int:
        """Return how many bytes can still be stored."""
        return self._max_bytes - self._table[USED]

    def put(self, number: int, item: ItemEncoder | EncodedItem) -> None:
        """Store an item, unless it is stored and valid, or does not fit."""
        encoded = item.encode(number)
        with self.memory.locked():
            stored = self._get(number)
            if stored is None:
                self._append(number, encoded)
            elif not is_valid(stored, number):
                self._replace(number, encoded)

    def _append(self, number: int, encoded: bytearray) -> None:
        size = len(encoded)
        used = self._table[USED]
        if used + size > self._max_bytes:
            return
        # Counted first: a process that is killed here leaves a gap, and no torn item.
        self._table[USED] = used + size
        begin = self._start + used
        self._bytes[begin : begin + size] = encoded
        self._table[ENTRIES + 2 * number + 1] = size
        self._table[ENTRIES + 2 * number] = begin

    def _replace(self, number: int, encoded: bytearray) -> None:
        """Store a damaged item anew: at its offset if that is valid, or at the end."""
        entry = ENTRIES + 2 * number
        begin, size = self._table[entry], self._table[entry + 1]
        end = self._start + self._table[USED]
        fits = self._start <= begin and begin % 16 == 0 and begin + size <= end
        if fits and size == len(encoded):
            self._bytes[begin : begin + size] = encoded
            return
        self._table[entry] = 0
        self._append(number, encoded)

    def stored_mask(self, count: int) -> NDArray[np.bool_]:
        """Return for each of the first `count` items whether it is stored."""
        begins = np.frombuffer(self._table, np.uint64)[ENTRIES::2]
        return begins[:count].astype(np.bool_)

    def usage(self) -> tuple[int, int]:
        """Return the number of stored items, and their bytes."""
        # The table is counted: a process that is killed right after it has written an
        # entry would leave a counter one short.
        items = int(np.count_nonzero(self.stored_mask(self._count)))
        return items, self._table[USED]

    def flush(self) -> None:
        """Do nothing: each item is stored at once."""
