"""Items on a local disk, in LMDB: several processes may use one directory."""

from __future__ import annotations

import os
import struct
import time
import warnings
import zlib
from multiprocessing import util
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echobuf.cache.directory import Directory
from echobuf.cache.environment import import_lmdb, lock, open_environment
from echobuf.cache.index_check import is_replaceable
from echobuf.cache.items import EncodedItem, ItemEncoder, has_valid_header, is_valid

_USED = b"used"  # the key of all items' bytes; items' keys are longer
_KEY_BYTES = 8
_USED_VALUE = struct.Struct("<QI")  # bytes of all items, a checksum of that
# A commit waits for the disk: 3 ms alone, 0.4 ms an item among 16.
_PENDING_ITEMS = 256
_PENDING_BYTES = 8 << 20
_PENDING_S = 1.0


class DiskStore:
    """Items in a directory.

    Items are buffered when they are put, and written in groups, one transaction each.

    Args:
        directory: of the cache.
        max_bytes: of all encoded items.
    """

    def __init__(self, directory: Directory, max_bytes: int) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._opened: _OpenStore | None = None
        self._open()

    def __getstate__(self) -> tuple[Directory, int]:
        self.flush()
        return self._directory, self._max_bytes

    def __setstate__(self, state: tuple[Directory, int]) -> None:
        self._directory, self._max_bytes = state
        self._opened = None

    @property
    def read_only(self) -> bool:
        """True where the directory is not writable."""
        return self._directory.read_only

    def _open(self) -> _OpenStore:
        opened = self._opened
        if opened is None or opened.process != os.getpid():
            opened = self._opened = _OpenStore(self._directory, self._max_bytes)
            # Before workers exit, and before the interpreter does.
            util.Finalize(self, opened.flush, exitpriority=10)
        return opened

    def get(self, number: int) -> bytearray | None:
        """Return a copy of a stored item, damaged or not; None if it is not stored."""
        return self._open().get(number)

    def free_bytes(self) -> int:
        """Return how many bytes can still be stored, as far as this process knows."""
        opened = self._open()
        return 0 if opened.closed else self._max_bytes - opened.used

    def put(self, number: int, item: ItemEncoder | EncodedItem) -> None:
        """Store an item, unless it is stored and valid, or does not fit."""
        self._open().put(number, item)

    def stored_mask(self, count: int) -> NDArray[np.bool_]:
        """Return for each of the first `count` items if it is stored or buffered."""
        mask = np.zeros(count, np.bool_)
        numbers = self._open().numbers()
        mask[numbers[numbers < count]] = True
        return mask

    def usage(self) -> tuple[int, int]:
        """Return the number of stored items, and their bytes."""
        return self._open().usage()

    def flush(self) -> None:
        """Write the buffered items."""
        if self._opened is not None and self._opened.process == os.getpid():
            self._opened.flush()


class _OpenStore:
    """The store as one process has opened it.

    Attributes:
        process: the number of that process.
        used: bytes stored and buffered, as read last.
        closed: no more items are added.
    """

    def __init__(self, directory: Directory, max_bytes: int) -> None:
        self.process = os.getpid()
        self._lmdb = import_lmdb()
        self._environment = open_environment(directory, max_bytes)
        self._page_size = self._environment.stat()["psize"]
        self._path = directory.path
        self._max_bytes = max_bytes
        self._lock = lock()
        self._pending: dict[int, bytearray] = {}
        self._growth = 0  # of the store, once the buffered items are written
        self._pending_since = 0.0
        self.closed = directory.read_only
        self.used = 0
        if directory.full:
            self._stop("its disk is full")
        self.usage()

    def get(self, number: int) -> bytearray | None:
        if self._pending:
            pending = self._pending.get(number)
            if pending is not None:
                return bytearray(pending)
            if time.monotonic() - self._pending_since > _PENDING_S:
                self.flush()
        try:
            with self._lock, self._environment.begin(buffers=True) as transaction:
                stored = transaction.get(_key(number))
                if stored is None:
                    return None
                return bytearray(stored) if has_valid_header(stored) else bytearray()
        except self._lmdb.Error:
            return bytearray()

    def put(self, number: int, item: ItemEncoder | EncodedItem) -> None:
        if self.closed or item.size > self._max_bytes:
            return
        with self._lock:
            if number in self._pending:
                return
            try:
                with self._environment.begin(buffers=True) as transaction:
                    used = _used(transaction)  # with the items of other processes
                    stored = transaction.get(_key(number))
            except self._lmdb.Error:
                return
            growth = item.size - (0 if stored is None else len(stored))
            if growth > 0 and used + self._growth + growth > self._max_bytes:
                self.used = used + self._growth
                return
            if not self._pending:
                self._pending_since = time.monotonic()
            self._pending[number] = item.encode(number)
            self._growth += growth
            self.used = used + self._growth
            if (
                len(self._pending) >= _PENDING_ITEMS
                or self._pending_bytes() >= _PENDING_BYTES
            ):
                self.flush()

    def numbers(self) -> NDArray[np.uint64]:
        with self._lock:
            pending = np.fromiter(self._pending, np.uint64)
            try:
                with self._environment.begin() as transaction:
                    keys = [
                        key
                        for key in transaction.cursor().iternext(values=False)
                        if len(key) == _KEY_BYTES
                    ]
            except self._lmdb.Error:
                return pending
            stored = np.frombuffer(b"".join(keys), ">u8")
            return np.concatenate([pending, stored.astype(np.uint64)])

    def usage(self) -> tuple[int, int]:
        with self._lock:
            try:
                with self._environment.begin(buffers=True) as transaction:
                    used = _used(transaction)
                    items = max(0, transaction.stat()["entries"] - 1)
                    # Buffered items that are stored, too: damaged ones, and those that
                    # another process has stored meanwhile.
                    replaced = {
                        number: len(stored)
                        for number in self._pending
                        if (stored := transaction.get(_key(number))) is not None
                    }
            except self._lmdb.Error:
                return 0, 0
            self._growth = self._pending_bytes() - sum(replaced.values())
            # Other processes may have stored items meanwhile.
            while self._growth > 0 and used + self._growth > self._max_bytes:
                number, encoded = self._pending.popitem()
                self._growth -= len(encoded) - replaced.pop(number, 0)
            self.used = used + self._growth
            return items - len(replaced) + len(self._pending), self.used

    def _pending_bytes(self) -> int:
        return sum(map(len, self._pending.values()))

    def flush(self) -> None:
        with self._lock:
            if not self._pending or self.process != os.getpid():
                return
            try:
                with self._environment.begin(write=True, buffers=True) as transaction:
                    used = _used(transaction)
                    for number, encoded in self._pending.items():
                        used = self._write(transaction, used, number, encoded)
                    transaction.put(_USED, _pack_used(used))
                self.used = used
            except self._lmdb.Error as error:
                self._stop(str(error))
            finally:
                self._pending = {}
                self._growth = 0

    def _write(
        self, transaction: Any, used: int, number: int, encoded: bytearray
    ) -> int:
        """Write one item, if it is new or damaged and fits; return the used bytes."""
        key = _key(number)
        stored = transaction.get(key)
        if stored is not None:
            if is_valid(stored, number):
                return used
            if not is_replaceable(stored, self._page_size):
                return used
            used -= len(stored)
        if used + len(encoded) > self._max_bytes:
            return used + (0 if stored is None else len(stored))
        transaction.put(key, bytes(encoded))
        return used + len(encoded)

    def _stop(self, reason: str) -> None:
        self.closed = True
        warnings.warn(
            f"the cache in {str(self._path)!r} can take no more items ({reason}); it "
            "serves those that it has, and the rest is read from the source.",
            RuntimeWarning,
            stacklevel=2,
        )


def _key(number: int) -> bytes:
    return number.to_bytes(_KEY_BYTES, "big")


def _pack_used(used: int) -> bytes:
    return _USED_VALUE.pack(used, zlib.crc32(used.to_bytes(8, "little")))


def _used(transaction: Any) -> int:
    """Return the bytes of all items; sum them again where the sum is damaged."""
    value = transaction.get(_USED)
    if value is not None and len(value) == _USED_VALUE.size:
        used = int(_USED_VALUE.unpack(value)[0])
        if bytes(value) == _pack_used(used):
            return used
    items = transaction.cursor()
    return sum(len(item) for key, item in items if bytes(key) != _USED)
