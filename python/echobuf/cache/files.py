"""Items that are renewed, in files of a directory: one an index."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from echobuf.cache.directory import Directory
from echobuf.cache.items import (
    HEADER_BYTES,
    EncodedItem,
    ItemEncoder,
    is_valid,
    number_of,
)
from echobuf.cache.renewal import split_key
from echobuf.cache.sizes import SizeFile
from echobuf.errors import EchobufError, message

_UNWRITTEN = bytes(HEADER_BYTES)  # the header of an item that is being written
_FOLDER_BITS = 10  # so many items' files are in one folder


class FileStore:
    """Items in a directory, of each index the generation that was stored last.

    An item is written over its index's last one, which takes a fifth of the time of a
    new file: first a header of zeros, then the item, then its header. Readers take no
    lock, and may read an item of which a part is replaced: its checksum is then wrong.
    Nothing waits for the disk: that is also how half of an item is found that a machine
    leaves which stops.
    """

    def __init__(self, directory: Directory, length: int, max_bytes: int) -> None:
        self.__setstate__((directory, length, max_bytes))
        if not self.read_only:
            self._open()

    def __getstate__(self) -> tuple[Directory, int, int]:
        return self._directory, self._length, self._max_bytes

    def __setstate__(self, state: tuple[Directory, int, int]) -> None:
        self._directory, self._length, self._max_bytes = state
        self._folder = f"{self._directory.path}/items/"
        self._process = 0
        self._closed = self.read_only

    @property
    def read_only(self) -> bool:
        """True where the directory is not writable."""
        return self._directory.read_only

    def _open(self) -> SizeFile:
        if self._process != os.getpid():
            path, measure = self._directory.store, self._measure
            try:
                self._sizes = SizeFile(
                    path, self._length, measure, self._mend, self._stored
                )
            except OSError as error:
                raise self._directory.explain(error) from error
            self._process = os.getpid()
        return self._sizes

    def _path(self, number: int) -> str:
        return f"{self._folder}{number >> _FOLDER_BITS}/{number}"

    def get_all(self, keys: Sequence[int]) -> list[bytearray | None]:
        """Return copies of stored items, damaged or not; None for those not stored."""
        return [self._get(key) for key in keys]

    def _get(self, key: int, most: int | None = None) -> bytearray | None:
        """Return at most so many bytes of an item, all of them where `most` is None."""
        number, _ = split_key(key)
        try:
            descriptor = os.open(self._path(number), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError:
            return bytearray()
        try:
            size = os.fstat(descriptor).st_size
            encoded = bytearray(size if most is None else min(size, most))
            _read_into(descriptor, encoded)
        except OSError:
            return bytearray()
        finally:
            os.close(descriptor)
        is_written = encoded[:HEADER_BYTES] != _UNWRITTEN
        return encoded if is_written and number_of(encoded) in (key, None) else None

    def is_damaged(self, key: int) -> bool:
        """Return False if an item whose checksum was wrong is being replaced."""
        if self.read_only:
            return True
        with self._changing():
            stored = self._get(key)
            return stored is not None and not is_valid(stored, key)
        return True

    def _has(self, key: int) -> bool:
        """Return True if an item is stored, and valid. Called with the lock."""
        if number_of(self._get(key, HEADER_BYTES) or b"") != key:
            return False
        return is_valid(self._get(key) or b"", key)

    def free_bytes(self) -> int:
        """Return the most bytes that an item may have."""
        return 0 if self._closed else self._max_bytes

    def put(self, key: int, item: ItemEncoder | EncodedItem) -> None:
        """Store an item in place of its index's last one, unless it does not fit."""
        number, _ = split_key(key)
        encoded = item.encode(key)
        with self._changing() as sizes:
            if self._has(key):
                return
            with sizes.changing(number):
                if sizes.total - sizes[number] + len(encoded) <= self._max_bytes:
                    self._write(number, encoded)
                else:
                    self._remove(number)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[SizeFile]:
        """Lock the store; warn once if nothing can be stored any more."""
        try:
            sizes = self._open()
            with sizes.locked():
                yield sizes
        except (OSError, EchobufError) as error:
            self._closed = True
            self._directory.warn_closed(message(error))

    def _remove(self, number: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(number))

    def _write(self, number: int, encoded: bytearray) -> None:
        path = self._path(number)
        try:
            descriptor = _open_to_write(path)
            try:
                os.pwrite(descriptor, _UNWRITTEN, 0)
                _write_from(descriptor, memoryview(encoded), HEADER_BYTES)
                os.ftruncate(descriptor, len(encoded))
                os.pwrite(descriptor, encoded[:HEADER_BYTES], 0)
            finally:
                os.close(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise

    def _mend(self, number: int) -> None:
        """Remove an item whose writer was killed."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(number))

    def _measure(self, number: int) -> int:
        """Return the size of a file; 0 if there is none."""
        try:
            return os.stat(self._path(number)).st_size
        except OSError:
            return 0

    def _stored(self) -> Iterator[int]:
        """Yield the numbers of all files."""
        for path in Path(self._folder).glob("*/*"):
            if path.name.isdecimal():
                yield int(path.name)

    def usage(self) -> tuple[int, int]:
        """Return the number of stored items, and their bytes."""
        if self.read_only:
            found = [self._measure(number) for number in self._stored()]
            return len(found), sum(found)
        sizes = self._open()
        with sizes.locked():
            return int(np.count_nonzero(sizes.all())), sizes.total

    def flush(self) -> None:
        """Do nothing: each item is written at once."""


def _read_into(descriptor: int, data: bytearray) -> None:
    """Read the bytes of a file, which may be fewer."""
    at, view = 0, memoryview(data)
    while at < len(data) and (count := os.readv(descriptor, [view[at:]])):
        at += count


def _write_from(descriptor: int, data: memoryview, at: int) -> None:
    """Write bytes to where they belong in a file, from an offset on."""
    while at < len(data):
        at += os.pwrite(descriptor, data[at:], at)


def _open_to_write(path: str) -> int:
    """Open a file; make it, and its folders below the cache's, where it is new."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        folder = os.path.dirname(path)
        for each in (os.path.dirname(folder), folder):
            with contextlib.suppress(FileExistsError):
                os.mkdir(each)
        return os.open(path, flags, 0o666)
