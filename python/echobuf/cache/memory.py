"""Records in memory that a process shares with its workers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from echobuf.cache.record import Draft, Sealed, aligned, is_sound
from echobuf.cache.shared import SharedMemory
from echobuf.capacity import available_bytes
from echobuf.errors import CapacityError

_USED, _ITEMS, _ENTRIES = 0, 1, 2  # words


class MemoryStore:
    """A table of where each item lies, and behind it the records.

    An entry is written once its record is: what a killed worker leaves half-written is
    never found. Readers take no lock, and check what they have copied.

    Args:
        count: items of the source.
        max_bytes: of all records.

    Raises:
        CapacityError: the machine has not as much memory.
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
        self._start = aligned((_ENTRIES + 2 * count) * 8)
        self._memory = SharedMemory(self._start + aligned(max_bytes))
        self._map()

    def _map(self) -> None:
        self._bytes = self._memory.view
        self._table = self._bytes[: self._start].cast("Q")

    def __getstate__(self) -> tuple[int, int, int, SharedMemory]:
        return self._count, self._max_bytes, self._start, self._memory

    def __setstate__(self, state: tuple[int, int, int, SharedMemory]) -> None:
        self._count, self._max_bytes, self._start, self._memory = state
        self._map()

    def get(self, number: int) -> bytearray | None:
        """A copy of what is stored for an item, damaged or not; None if nothing is."""
        entry = _ENTRIES + 2 * number
        begin, size = self._table[entry], self._table[entry + 1]
        return bytearray(self._bytes[begin : begin + size]) if begin else None

    def room(self) -> int:
        """Bytes that can still be stored."""
        return self._max_bytes - self._table[_USED]

    def put(self, number: int, draft: Draft | Sealed) -> None:
        """Stores an item, unless it is there and sound, or there is no room for it."""
        record = draft.seal(number)
        with self._memory.locked():
            stored = self.get(number)
            if stored is None:
                self._append(number, record)
            elif not is_sound(stored, number):
                self._mend(number, record)

    def _append(self, number: int, record: bytearray) -> None:
        size = len(record)
        used = self._table[_USED]
        if used + size > self._max_bytes:
            return
        # Taken first: whoever is killed here leaves a gap, and nothing torn.
        self._table[_USED] = used + size
        begin = self._start + used
        self._bytes[begin : begin + size] = record
        self._table[_ENTRIES + 2 * number + 1] = size
        self._table[_ENTRIES + 2 * number] = begin
        self._table[_ITEMS] += 1

    def _mend(self, number: int, record: bytearray) -> None:
        """Where it lies, if it may lie there; else elsewhere, or not at all."""
        entry = _ENTRIES + 2 * number
        begin, size = self._table[entry], self._table[entry + 1]
        end = self._start + self._table[_USED]
        fits = self._start <= begin and begin % 16 == 0 and begin + size <= end
        if fits and size == len(record):
            self._bytes[begin : begin + size] = record
            return
        self._table[entry] = 0
        self._table[_ITEMS] -= 1
        self._append(number, record)

    def held(self, count: int) -> NDArray[np.bool_]:
        """For each of so many items, whether it is stored."""
        begins = np.frombuffer(self._table, np.uint64)[_ENTRIES::2]
        return begins[:count].astype(np.bool_)

    def contents(self) -> tuple[int, int]:
        """How many items are stored, and their bytes."""
        return self._table[_ITEMS], self._table[_USED]

    def flush(self) -> None:
        """Nothing is held back."""
