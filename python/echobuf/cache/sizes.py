"""Sizes of the items in a directory, in a file that its processes lock in turn."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from echobuf.resources import track

_TOTAL, _CHANGING, _SIZES = 0, 1, 2  # indices of words in the file
_MOST = 2**48  # of an item; a larger size is damaged


class SizeFile:
    """The size of each item, 0 for none, and their sum.

    The file is read and written, not mapped: one that is cut off ends no process. While
    an item is changed, its number stands in the file: who finds it there next knows
    that a process was killed, and mends the item.

    Args:
        path: of the file.
        length: the number of items.
        measure: a function of an item's number that returns its size as it is stored.
        mend: a function of the number of an item that a killed process has changed.
        stored: a function that returns the numbers of all stored items.
    """

    def __init__(
        self,
        path: Path,
        length: int,
        measure: Callable[[int], int],
        mend: Callable[[int], None],
        stored: Callable[[], Iterator[int]],
    ) -> None:
        self._length = length
        self._measure = measure
        self._mend_item = mend
        self._lock = threading.Lock()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._file = io.FileIO(descriptor, "r+")
        weakref.finalize(self, self._file.close)
        track(self._file)  # a forked child that had it open would keep it locked
        with self.locked():
            is_cut = os.fstat(descriptor).st_size != 8 * (_SIZES + length)
            if is_cut or self.all().max(initial=0) > _MOST:
                self._write_all(stored())
            self._sum()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude all other threads and processes.

        The system releases the lock of a process that is killed.
        """
        with self._lock:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                changing = self._get(_CHANGING)
                if 0 < changing <= self._length:
                    self._mend(changing - 1)
                yield
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def changing(self, number: int) -> Iterator[None]:
        """Note that an item is changed; then note its size. Called with the lock."""
        self._put(_CHANGING, number + 1)
        try:
            yield
        finally:
            before, after = self[number], self._measure(number)
            self._put(_SIZES + number, after)
            self._put(_TOTAL, max(0, self.total + after - before))
            self._put(_CHANGING, 0)

    @property
    def total(self) -> int:
        """Bytes of all items."""
        return self._get(_TOTAL)

    def __getitem__(self, number: int) -> int:
        return self._get(_SIZES + number)

    def all(self) -> NDArray[np.uint64]:
        """Return the sizes of all items."""
        data = os.pread(self._file.fileno(), 8 * self._length, 8 * _SIZES)
        return np.frombuffer(data[: len(data) // 8 * 8], "<u8")

    def _mend(self, number: int) -> None:
        self._mend_item(number)
        self._put(_SIZES + number, self._measure(number))
        self._sum()
        self._put(_CHANGING, 0)

    def _write_all(self, stored: Iterator[int]) -> None:
        os.ftruncate(self._file.fileno(), 0)
        os.ftruncate(self._file.fileno(), 8 * (_SIZES + self._length))
        for number in stored:
            if 0 <= number < self._length:
                self._put(_SIZES + number, self._measure(number))

    def _sum(self) -> None:
        self._put(_TOTAL, int(self.all().sum()))

    def _get(self, word: int) -> int:
        data = os.pread(self._file.fileno(), 8, 8 * word)
        return int.from_bytes(data, "little")

    def _put(self, word: int, value: int) -> None:
        os.pwrite(self._file.fileno(), value.to_bytes(8, "little"), 8 * word)
