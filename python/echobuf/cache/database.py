"""Connections to the SQLite file of a cache's directory, none of which a fork inherits.

SQLite checks the pages that it reads and maps none of them: a damaged file is an error,
and never the end of the process.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from typing import Any

from echobuf.cache.directory import Directory
from echobuf.errors import OptionError
from echobuf.resources import check_descriptors, explain, members

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

lock = threading.RLock()
"""Held while SQLite is called, and while the process forks."""


class Database:
    """The file of a directory, opened when it is first used, and anew after a fork."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._connection: sqlite3.Connection | None = None
        _all.add(self)

    def connection(self) -> sqlite3.Connection:
        """Return the connection, which is used with the lock held."""
        if self._connection is None:
            self._connection = _connect(self._directory)
        return self._connection

    def close(self) -> None:
        """Close the connection; it is opened again by the next use."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


_all: weakref.WeakSet[Database] = weakref.WeakSet()


def _before_fork() -> None:
    lock.acquire()
    for database in members(_all):
        database.close()


os.register_at_fork(
    before=_before_fork, after_in_parent=lock.release, after_in_child=lock.release
)


def _connect(directory: Directory) -> sqlite3.Connection:
    path, connection = str(directory.path), None
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
        clear = explain(error, f"the cache in {path!r}", "keep fewer caches")
        if clear is not None:
            raise clear from error
        raise OptionError(
            f"`directory` is {path!r}, whose store cannot be opened: {error}. Delete "
            "the directory if it is damaged, or give another one."
        ) from error
    return connection


def scalar(connection: sqlite3.Connection, query: str, *values: Any) -> Any:
    """Return the first value of the first row; None if there is no row.

    Queries cast: in a damaged file a value may be of any type.
    """
    row = connection.execute(query, values).fetchone()
    return None if row is None else row[0]
