"""Items that are renewed, in files of a directory: one an index."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from echobuf.cache.directory import Directory
from echobuf.cache.items import EncodedItem, ItemEncoder, is_valid, number_of
from echobuf.cache.renewal import split_key
from echobuf.cache.sizes import SizeFile
from echobuf.errors import EchobufError, message

_NEW = "new"  # the file that is being written, of which the lock allows one
_FOLDER_BITS = 10  # so many items' files are in one folder


class FileStore:
    """Items in a directory, of each index the generation that was stored last.

    An item is written beside its place and renamed: readers take no lock, and find it
    whole or not at all. Nothing waits for the disk: what a machine that stops leaves
    half-written is found by its checksum.
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
                self._sizes = SizeFile(path, self._length, measure, self._stored)
            except OSError as error:
                raise self._directory.explain(error) from error
            self._process = os.getpid()
        return self._sizes

    def _path(self, number: int) -> str:
        return f"{self._folder}{number >> _FOLDER_BITS}/{number}"

    def get_all(self, keys: Sequence[int]) -> list[bytearray | None]:
        """Return copies of stored items, damaged or not; None for those not stored."""
        return [self._get(key) for key in keys]

    def _get(self, key: int) -> bytearray | None:
        encoded = self._read(split_key(key)[0])
        if encoded is None or number_of(encoded) in (key, None):
            return encoded
        return None  # of another generation

    def _read(self, number: int) -> bytearray | None:
        """Return the bytes of a file; none where it cannot be read."""
        try:
            descriptor = os.open(self._path(number), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError:
            return bytearray()
        try:
            data = bytearray(os.fstat(descriptor).st_size)
            view, at = memoryview(data), 0
            while at < len(data):
                count = os.readv(descriptor, [view[at:]])
                if not count:
                    break
                at += count
            return data
        except OSError:
            return bytearray()
        finally:
            os.close(descriptor)

    def free_bytes(self) -> int:
        """Return the most bytes that an item may have."""
        return 0 if self._closed else self._max_bytes

    def put(self, key: int, item: ItemEncoder | EncodedItem) -> None:
        """Store an item in place of its index's last one, unless it does not fit."""
        number, _ = split_key(key)
        with self._changing() as sizes:
            stored = self._get(key)
            if stored is not None and is_valid(stored, key):
                return
            with sizes.changing(number):
                self._remove(number)
                if sizes.total - sizes[number] + item.size <= self._max_bytes:
                    self._write(number, item.encode(key))

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
        new, path = f"{self._directory.path}/{_NEW}", self._path(number)
        try:
            with open(new, "wb", buffering=0) as file:
                view = memoryview(encoded)
                while view:
                    view = view[file.write(view) :]
            try:
                os.rename(new, path)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.rename(new, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(new)
            raise

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
