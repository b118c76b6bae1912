"""Records on a local disk, in LMDB: several processes may use one directory."""

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
from echobuf.cache.pages import is_replaceable
from echobuf.cache.record import Draft, Sealed, is_sound, may_be_whole

_USED = b"used"  # no key of an item: those are longer
_KEY_BYTES = 8
_NOTED = struct.Struct("<QI")  # bytes of all items, a checksum of that
# A commit waits for the disk: 3 ms alone, 0.4 ms an item among 16.
_HELD_ITEMS = 256
_HELD_BYTES = 8 << 20
_HELD_S = 1.0


class DiskStore:
    """Items in a directory.

    What is put is held back for a while, and then written in one transaction.

    Args:
        directory: the cache's own.
        max_bytes: of all records.
    """

    def __init__(self, directory: Directory, max_bytes: int) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._here: _Here | None = None
        self._open()

    def __getstate__(self) -> tuple[Directory, int]:
        self.flush()
        return self._directory, self._max_bytes

    def __setstate__(self, state: tuple[Directory, int]) -> None:
        self._directory, self._max_bytes = state
        self._here = None

    @property
    def read_only(self) -> bool:
        """Whether the directory cannot be written to."""
        return self._directory.read_only

    def _open(self) -> _Here:
        here = self._here
        if here is None or here.process != os.getpid():
            here = self._here = _Here(self._directory, self._max_bytes)
            # Before workers exit, and before the interpreter does.
            util.Finalize(self, here.flush, exitpriority=10)
        return here

    def get(self, number: int) -> bytearray | None:
        """A copy of what is stored for an item, damaged or not; None if nothing is."""
        return self._open().get(number)

    def room(self) -> int:
        """Bytes that can still be stored, as far as this process knows."""
        here = self._open()
        return 0 if here.closed else self._max_bytes - here.used

    def put(self, number: int, draft: Draft | Sealed) -> None:
        """Stores an item, unless it is there and sound, or there is no room for it."""
        self._open().put(number, draft)

    def held(self, count: int) -> NDArray[np.bool_]:
        """For each of so many items, whether it is stored or held back here."""
        found = np.zeros(count, np.bool_)
        numbers = self._open().numbers()
        found[numbers[numbers < count]] = True
        return found

    def contents(self) -> tuple[int, int]:
        """How many items are stored, and their bytes."""
        return self._open().contents()

    def flush(self) -> None:
        """Writes what is held back."""
        if self._here is not None and self._here.process == os.getpid():
            self._here.flush()


class _Here:
    """The store as one process has it open.

    Attributes:
        process: which.
        used: bytes stored and held back, when it was last looked.
        closed: nothing is added any more.
    """

    def __init__(self, directory: Directory, max_bytes: int) -> None:
        self.process = os.getpid()
        self._lmdb = import_lmdb()
        self._environment = open_environment(directory, max_bytes)
        self._page_size = self._environment.stat()["psize"]
        self._path = directory.path
        self._max_bytes = max_bytes
        self._lock = lock()
        self._held: dict[int, bytearray] = {}
        self._growth = 0  # of the store, once what is held is written
        self._held_since = 0.0
        self.closed = directory.read_only
        self.used = 0
        if directory.full:
            self._stop("its disk is full")
        self.contents()

    def get(self, number: int) -> bytearray | None:
        if self._held:
            held = self._held.get(number)
            if held is not None:
                return bytearray(held)
            if time.monotonic() - self._held_since > _HELD_S:
                self.flush()
        try:
            with self._lock, self._environment.begin(buffers=True) as transaction:
                stored = transaction.get(_key(number))
                if stored is None:
                    return None
                return bytearray(stored) if may_be_whole(stored) else bytearray()
        except self._lmdb.Error:
            return bytearray()

    def put(self, number: int, draft: Draft | Sealed) -> None:
        if self.closed or draft.size > self._max_bytes:
            return
        with self._lock:
            if number in self._held:
                return
            try:
                with self._environment.begin(buffers=True) as transaction:
                    used = _used(transaction)  # with what other processes have written
                    stored = transaction.get(_key(number))
            except self._lmdb.Error:
                return
            growth = draft.size - (0 if stored is None else len(stored))
            if growth > 0 and used + self._growth + growth > self._max_bytes:
                self.used = used + self._growth
                return
            if not self._held:
                self._held_since = time.monotonic()
            self._held[number] = draft.seal(number)
            self._growth += growth
            self.used = used + self._growth
            if len(self._held) >= _HELD_ITEMS or self._bytes_held() >= _HELD_BYTES:
                self.flush()

    def numbers(self) -> NDArray[np.uint64]:
        with self._lock:
            held = np.fromiter(self._held, np.uint64)
            try:
                with self._environment.begin() as transaction:
                    keys = [
                        key
                        for key in transaction.cursor().iternext(values=False)
                        if len(key) == _KEY_BYTES
                    ]
            except self._lmdb.Error:
                return held
            stored = np.frombuffer(b"".join(keys), ">u8")
            return np.concatenate([held, stored.astype(np.uint64)])

    def contents(self) -> tuple[int, int]:
        with self._lock:
            try:
                with self._environment.begin(buffers=True) as transaction:
                    used = _used(transaction)
                    items = max(0, transaction.stat()["entries"] - 1)
                    # Damaged ones are held to be stored anew; others another process
                    # may have stored meanwhile.
                    again = {
                        number: len(stored)
                        for number in self._held
                        if (stored := transaction.get(_key(number))) is not None
                    }
            except self._lmdb.Error:
                return 0, 0
            self._growth = self._bytes_held() - sum(again.values())
            # Other processes may have filled the room that there was.
            while self._growth > 0 and used + self._growth > self._max_bytes:
                number, record = self._held.popitem()
                self._growth -= len(record) - again.pop(number, 0)
            self.used = used + self._growth
            return items - len(again) + len(self._held), self.used

    def _bytes_held(self) -> int:
        return sum(map(len, self._held.values()))

    def flush(self) -> None:
        with self._lock:
            if not self._held or self.process != os.getpid():
                return
            try:
                with self._environment.begin(write=True, buffers=True) as transaction:
                    used = _used(transaction)
                    for number, record in self._held.items():
                        used = self._write(transaction, used, number, record)
                    transaction.put(_USED, _note(used))
                self.used = used
            except self._lmdb.Error as error:
                self._stop(str(error))
            finally:
                self._held = {}
                self._growth = 0

    def _write(
        self, transaction: Any, used: int, number: int, record: bytearray
    ) -> int:
        """Writes one record, if it is wanted and fits; the bytes used with it."""
        key = _key(number)
        stored = transaction.get(key)
        if stored is not None:
            if is_sound(stored, number):
                return used
            if not is_replaceable(stored, self._page_size):
                return used
            used -= len(stored)
        if used + len(record) > self._max_bytes:
            return used + (0 if stored is None else len(stored))
        transaction.put(key, bytes(record))
        return used + len(record)

    def _stop(self, why: str) -> None:
        self.closed = True
        warnings.warn(
            f"the cache in {str(self._path)!r} can take no more items ({why}); it "
            "serves those that it has, and the rest is read from the source.",
            RuntimeWarning,
            stacklevel=2,
        )


def _key(number: int) -> bytes:
    return number.to_bytes(_KEY_BYTES, "big")


def _note(used: int) -> bytes:
    return _NOTED.pack(used, zlib.crc32(used.to_bytes(8, "little")))


def _used(transaction: Any) -> int:
    """Bytes of all items; counted again where what was noted is damaged."""
    value = transaction.get(_USED)
    if value is not None and len(value) == _NOTED.size:
        used = int(_NOTED.unpack(value)[0])
        if bytes(value) == _note(used):
            return used
    items = transaction.cursor()
    return sum(len(item) for key, item in items if bytes(key) != _USED)
