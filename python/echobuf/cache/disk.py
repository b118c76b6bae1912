"""Items on a local disk, in SQLite: several processes may use one directory.

SQLite checks the pages that it reads and maps none of them: a damaged file is an error,
and never the end of the process.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Sequence
from multiprocessing import util
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echobuf.cache.directory import Directory
from echobuf.cache.items import EncodedItem, ItemEncoder, is_valid
from echobuf.errors import EchobufError, message
from echobuf.resources import check_descriptors, members

# A commit waits for the disk.
_PENDING_ITEMS = 256
_PENDING_BYTES = 8 << 20
_PENDING_S = 1.0
_DESCRIPTORS = 3  # of the file, its journal and their folder, which SQLite opens
_BUSY_S = 60.0  # for another process to commit
_SETTINGS = """
PRAGMA page_size = 16384;
PRAGMA synchronous = NORMAL;
PRAGMA cell_size_check = ON;
PRAGMA mmap_size = 0;
PRAGMA trusted_schema = OFF;
"""
# `sizes` says which items there are without the pages of the items; `total`, in its
# one row, how many bytes.
_TABLES = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS items
    (number INTEGER PRIMARY KEY, size INTEGER NOT NULL, item BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS sizes ON items (number, size);
CREATE TABLE IF NOT EXISTS total (id INTEGER PRIMARY KEY, bytes INTEGER NOT NULL);
INSERT OR IGNORE INTO total VALUES (0, 0);
COMMIT;
"""


class DiskStore:
    """Items in a directory.

    Items are buffered when they are put, and written in groups, one transaction each.
    """

    def __init__(self, directory: Directory, max_bytes: int) -> None:
        self.__setstate__((directory, max_bytes))
        self._open()

    def __getstate__(self) -> tuple[Directory, int]:
        self.flush()
        return self._directory, self._max_bytes

    def __setstate__(self, state: tuple[Directory, int]) -> None:
        self._directory, self._max_bytes = state
        self._opened: _OpenStore | None = None

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
        used: bytes stored and buffered, as read last.
        closed: no more items are added.
    """

    def __init__(self, directory: Directory, max_bytes: int) -> None:
        self.process = os.getpid()
        self._directory = directory
        self._max_bytes = max_bytes
        self._pending: dict[int, bytearray] = {}
        self._pending_bytes = 0
        self._growth = 0  # of the store, once the buffered items are written
        self._pending_since = 0.0
        self._connection: sqlite3.Connection | None = None
        self.closed = directory.read_only
        self.used = 0
        _all.add(self)
        with lock:
            self._connected()  # raises, as `usage` does not
            self.usage()

    def _connected(self) -> sqlite3.Connection:
        """Return the connection, which is used with the lock held."""
        if self._connection is None:
            self._connection = _connect(self._directory)
        return self._connection

    def disconnect(self) -> None:
        """Close the connection; the next use opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read(self, query: str, *values: Any) -> Any:
        """Return the first value of the first row; None if there is no row.

        Queries cast: in a damaged file a value may be of any type.
        """
        row = self._connected().execute(query, values).fetchone()
        return None if row is None else row[0]

    def _stored(self, number: int) -> bytes | None:
        query = "SELECT CAST(item AS BLOB) FROM items WHERE number = ?"
        found: bytes | None = self._read(query, number)
        return found

    def _size(self, number: int) -> int:
        """Return the bytes of a stored item; 0 if it is not stored."""
        query = "SELECT CAST(size AS INTEGER) FROM items WHERE number = ?"
        return int(self._read(query, number) or 0)

    def _used(self) -> int:
        return int(self._read("SELECT CAST(bytes AS INTEGER) FROM total") or 0)

    def get_all(self, numbers: Sequence[int]) -> list[bytearray | None]:
        with lock:
            if self._pending and time.monotonic() - self._pending_since > _PENDING_S:
                self.flush()
            if len(numbers) == 1:
                return [self._get(numbers[0])]
            with contextlib.suppress(sqlite3.Error):
                self._connected().execute("BEGIN")  # else each item locks the file
            try:
                return [self._get(number) for number in numbers]
            finally:
                with contextlib.suppress(sqlite3.Error):
                    self._connected().execute("COMMIT")

    def _get(self, number: int) -> bytearray | None:
        try:
            found = self._pending.get(number) or self._stored(number)
        except sqlite3.Error:
            return bytearray()
        return None if found is None else bytearray(found)

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
            self.used = used + self._growth
            if growth > 0 and self.used + growth > self._max_bytes:
                return
            if not self._pending:
                self._pending_since = time.monotonic()
            self._pending[number] = item.encode(number)
            self._pending_bytes += item.size
            self._growth += growth
            self.used += growth
            if (
                len(self._pending) >= _PENDING_ITEMS
                or self._pending_bytes >= _PENDING_BYTES
            ):
                self.flush()

    def numbers(self) -> NDArray[np.int64]:
        with lock:
            self.flush()
            try:
                query = "SELECT CAST(number AS INTEGER) FROM items"
                rows = self._connected().execute(query)
                return np.fromiter((number for (number,) in rows), np.int64)
            except sqlite3.Error:
                return np.empty(0, np.int64)

    def usage(self) -> tuple[int, int]:
        with lock:
            self.flush()
            try:
                self.used = self._used()
                return int(self._read("SELECT count(*) FROM items")), self.used
            except sqlite3.Error:
                return 0, 0

    def flush(self) -> None:
        with lock:
            if not self._pending or self.process != os.getpid():
                return
            try:
                self.used = self._write_pending(self._connected())
            except (sqlite3.Error, EchobufError) as error:
                self._stop(message(error))
            finally:
                self._pending = {}
                self._pending_bytes = self._growth = 0

    def _write_pending(self, connection: sqlite3.Connection) -> int:
        """Write the buffered items in one transaction; return the used bytes."""
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            used = self._used()
            for number, encoded in self._pending.items():
                used = self._write(connection, used, number, encoded)
            connection.execute("UPDATE total SET bytes = ?", (used,))
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
        self._directory.warn_closed(reason)


# ---- connections, none of which a fork inherits

lock = threading.RLock()
"""Held while SQLite is called, and while the process forks."""
_all: weakref.WeakSet[_OpenStore] = weakref.WeakSet()


def _before_fork() -> None:
    lock.acquire()
    for opened in members(_all):
        opened.disconnect()


os.register_at_fork(
    before=_before_fork, after_in_parent=lock.release, after_in_child=lock.release
)


def _connect(directory: Directory) -> sqlite3.Connection:
    connection = None
    try:
        check_descriptors(_DESCRIPTORS)
        mode = "ro" if directory.read_only else "rwc"
        connection = sqlite3.connect(
            f"{directory.store.as_uri()}?mode={mode}",
            uri=True,
            timeout=_BUSY_S,
            isolation_level=None,  # transactions begin where it says BEGIN
            check_same_thread=False,
        )
        connection.executescript(_SETTINGS)
        if not directory.read_only:
            connection.executescript(_TABLES)
        connection.execute("SELECT bytes FROM total").fetchone()
    except (sqlite3.Error, OSError) as error:
        if connection is not None:
            connection.close()
        raise directory.explain(error) from error
    return connection
