"""Items in memory that a process shares with its workers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from echobuf._engine.capacity import available_bytes
from echobuf.cache.items import EncodedItem, ItemEncoder, align, is_valid
from echobuf.cache.shared_memory import SharedMemory
from echobuf.errors import CapacityError

_USED, _ITEMS, _ENTRIES = 0, 1, 2  # indices of words in the table


class MemoryStore:
    """A table of each item's offset and size, and behind it the encoded items.

    An entry is written after its item: an item that a killed worker has half written is
    never found. Readers take no lock; they check the bytes that they have copied.

    Args:
        count: items of the source.
        max_bytes: of all encoded items.

    Attributes:
        memory: of the table and the items.

    Raises:
        CapacityError: the machine has less memory available.
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
        self._start = align((_ENTRIES + 2 * count) * 8)
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

    def get(self, number: int) -> bytearray | None:
        """Return a copy of a stored item, damaged or not; None if it is not stored."""
        entry = _ENTRIES + 2 * number
        begin, size = self._table[entry], self._table[entry + 1]
        return bytearray(self._bytes[begin : begin + size]) if begin else None

    def free_bytes(self) -> int:
        """Return how many bytes can still be stored."""
        return self._max_bytes - self._table[_USED]

    def put(self, number: int, item: ItemEncoder | EncodedItem) -> None:
        """Store an item, unless it is stored and valid, or does not fit."""
        encoded = item.encode(number)
        with self.memory.locked():
            stored = self.get(number)
            if stored is None:
                self._append(number, encoded)
            elif not is_valid(stored, number):
                self._replace(number, encoded)

    def _append(self, number: int, encoded: bytearray) -> None:
        size = len(encoded)
        used = self._table[_USED]
        if used + size > self._max_bytes:
            return
        # Counted first: a process that is killed here leaves a gap, and no torn item.
        self._table[_USED] = used + size
        begin = self._start + used
        self._bytes[begin : begin + size] = encoded
        self._table[_ENTRIES + 2 * number + 1] = size
        self._table[_ENTRIES + 2 * number] = begin
        self._table[_ITEMS] += 1

    def _replace(self, number: int, encoded: bytearray) -> None:
        """Store a damaged item anew: at its offset if that is valid, or at the end."""
        entry = _ENTRIES + 2 * number
        begin, size = self._table[entry], self._table[entry + 1]
        end = self._start + self._table[_USED]
        fits = self._start <= begin and begin % 16 == 0 and begin + size <= end
        if fits and size == len(encoded):
            self._bytes[begin : begin + size] = encoded
            return
        self._table[entry] = 0
        self._table[_ITEMS] -= 1
        self._append(number, encoded)

    def stored_mask(self, count: int) -> NDArray[np.bool_]:
        """Return for each of the first `count` items whether it is stored."""
        begins = np.frombuffer(self._table, np.uint64)[_ENTRIES::2]
        return begins[:count].astype(np.bool_)

    def usage(self) -> tuple[int, int]:
        """Return the number of stored items, and their bytes."""
        return self._table[_ITEMS], self._table[_USED]

    def flush(self) -> None:
        """Do nothing: each item is stored at once."""
