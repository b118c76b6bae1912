"""Items on a local disk, in SQLite: several processes may use one directory."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import warnings
from collections.abc import Sequence
from multiprocessing import util

import numpy as np
from numpy.typing import NDArray

from echobuf.cache.database import Database, lock, scalar
from echobuf.cache.directory import Directory
from echobuf.cache.items import EncodedItem, ItemEncoder, is_valid
from echobuf.errors import EchobufError, message

# A commit waits for the disk.
_PENDING_ITEMS = 256
_PENDING_BYTES = 8 << 20
_PENDING_S = 1.0


class DiskStore:
    """Items in a directory.

    Items are buffered when they are put, and written in groups, one transaction each.
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

    def get_all(self, numbers: Sequence[int]) -> list[bytearray | None]:
        """Return copies of stored items, damaged or not; None for those not stored."""
        return self._open().get_all(numbers)

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
        mask[numbers[(numbers >= 0) & (numbers < count)]] = True
        return mask

    def usage(self) -> tuple[int, int]:
        """Return the number of stored items, and their bytes."""
        return self._open().usage()

    def flush(self) -> None:
        """Write the buffered items."""
        if self._opened is not None:
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
        self._database = Database(directory)
        self._directory = directory
        self._max_bytes = max_bytes
        self._pending: dict[int, bytearray] = {}
        self._growth = 0  # of the store, once the buffered items are written
        self._pending_since = 0.0
        self.closed = directory.read_only
        self.used = 0
        with lock:
            self._database.connection()
        self.usage()

    def get_all(self, numbers: Sequence[int]) -> list[bytearray | None]:
        with lock:
            if self._pending and time.monotonic() - self._pending_since > _PENDING_S:
                self.flush()
            if len(numbers) == 1:
                return [self._get(numbers[0])]
            connection = self._database.connection()
            with contextlib.suppress(sqlite3.Error):
                connection.execute("BEGIN")  # else each item takes a lock of the file
            try:
                return [self._get(number) for number in numbers]
            finally:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("COMMIT")

    def _get(self, number: int) -> bytearray | None:
        try:
            found = self._pending.get(number) or self._stored(number)
        except sqlite3.Error:
            return bytearray()
        return None if found is None else bytearray(found)

    def _stored(self, number: int) -> bytes | None:
        query = "SELECT CAST(item AS BLOB) FROM items WHERE number = ?"
        found: bytes | None = scalar(self._database.connection(), query, number)
        return found

    def put(self, number: int, item: ItemEncoder | EncodedItem) -> None:
        if self.closed or item.size > self._max_bytes:
            return
        with lock:
            if number in self._pending:
                return
            try:
                used = self._used()  # with the items of other processes
                growth = item.size - self._size(number)
            except sqlite3.Error:
                return
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

    def _used(self) -> int:
        query = "SELECT CAST(bytes AS INTEGER) FROM total"
        return int(scalar(self._database.connection(), query) or 0)

    def _size(self, number: int) -> int:
        """Return the bytes of a stored item; 0 if it is not stored."""
        query = "SELECT CAST(size AS INTEGER) FROM items WHERE number = ?"
        return int(scalar(self._database.connection(), query, number) or 0)

    def numbers(self) -> NDArray[np.int64]:
        with lock:
            pending = np.fromiter(self._pending, np.int64)
            try:
                query = "SELECT CAST(number AS INTEGER) FROM items"
                rows = self._database.connection().execute(query)
                stored = np.fromiter((number for (number,) in rows), np.int64)
            except sqlite3.Error:
                return pending
            return np.concatenate([pending, stored])

    def usage(self) -> tuple[int, int]:
        with lock:
            try:
                used = self._used()
                connection = self._database.connection()
                items = int(scalar(connection, "SELECT count(*) FROM items"))
                # Buffered items that are stored, too: damaged ones, and those that
                # another process has stored meanwhile.
                sizes = {number: self._size(number) for number in self._pending}
            except sqlite3.Error:
                return 0, 0
            replaced = {number: size for number, size in sizes.items() if size}
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
        with lock:
            if not self._pending or self.process != os.getpid():
                return
            try:
                self.used = self._write_pending(self._database.connection())
            except (sqlite3.Error, EchobufError) as error:
                self._stop(message(error))
            finally:
                self._pending = {}
                self._growth = 0

    def _write_pending(self, connection: sqlite3.Connection) -> int:
        """Write the buffered items in one transaction; return the used bytes."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            used = self._used()
            for number, encoded in self._pending.items():
                used = self._write(connection, used, number, encoded)
            connection.execute("UPDATE total SET bytes = ?", (used,))
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        return used

    def _write(
        self, connection: sqlite3.Connection, used: int, number: int, encoded: bytearray
    ) -> int:
        """Write one item, if it is new or damaged and fits; return the used bytes."""
        stored = self._stored(number)
        if stored is not None and is_valid(stored, number):
            return used
        after = used + len(encoded) - self._size(number)
        if after > self._max_bytes:
            return used
        row = (number, len(encoded), encoded)
        connection.execute("INSERT OR REPLACE INTO items VALUES (?, ?, ?)", row)
        return after

    def _stop(self, reason: str) -> None:
        self.closed = True
        if not self._directory.store.exists():
            return  # nobody wants its items
        path = str(self._directory.path)
        warnings.warn(
            f"the cache in {path!r} can take no more items ({reason}); it serves those "
            "that it has, and the rest is read from the source.",
            RuntimeWarning,
            stacklevel=2,
        )
