"""Items in memory that are renewed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from echobuf.cache.items import EncodedItem, ItemEncoder, is_valid, number_of
from echobuf.cache.memory import ENTRIES, USED, MemoryStore
from echobuf.cache.renewal import split_key


class RenewedMemory(MemoryStore):
    """Items in memory, of each index the generation that was stored last.

    The table says which bytes are taken: those of an item whose entry is 0 are free, so
    that a process that is killed while it writes leaves no gap. Readers take no lock,
    and may copy an item that is being replaced: its checksum is then wrong.
    """

    def get_all(self, keys: Sequence[int]) -> list[bytearray | None]:
        """Return copies of stored items, damaged or not; None for those not stored."""
        return [self._get_generation(key) for key in keys]

    def _get_generation(self, key: int) -> bytearray | None:
        encoded = self._get(split_key(key)[0])
        if encoded is None or number_of(encoded) not in (key, None):
            return None
        return encoded

    def is_damaged(self, key: int) -> bool:
        """Return False if an item whose checksum was wrong is being replaced."""
        with self.memory.locked():
            stored = self._get_generation(key)
            return stored is not None and not is_valid(stored, key)

    def free_bytes(self) -> int:
        """Return the most bytes that an item may have."""
        return self._max_bytes

    def put(self, key: int, item: ItemEncoder | EncodedItem) -> None:
        """Store an item in place of its index's last one, unless it does not fit."""
        encoded = item.encode(key)
        entry = ENTRIES + 2 * split_key(key)[0]
        with self.memory.locked():
            stored = self._get_generation(key)
            if stored is not None and is_valid(stored, key):
                return
            begin, size = self._table[entry], self._table[entry + 1]
            self._table[entry] = 0
            if not begin or size != len(encoded) or not self._is_inside(begin, size):
                begin = self._find_room(len(encoded))
            if begin:
                self._bytes[begin : begin + len(encoded)] = encoded
                self._table[entry + 1] = len(encoded)
                self._table[entry] = begin

    def _is_inside(self, begin: int, size: int) -> bool:
        return self._start <= begin <= self._start + self._max_bytes - size

    def _find_room(self, size: int) -> int:
        """Return the offset of as many free bytes; 0 where there are none.

        The end comes first, which takes no search as long as it was never reached.
        """
        used = self._table[USED]  # behind it are no items
        if used + size > self._max_bytes:
            return self._find_gap(size)
        self._table[USED] = used + size
        return self._start + used

    def _find_gap(self, size: int) -> int:
        begins, sizes = self._taken()
        order = np.argsort(begins)
        ends = np.concatenate(([self._start], (begins + sizes)[order]))
        free = np.concatenate((begins[order], [self._start + self._max_bytes])) - ends
        found = np.flatnonzero(free >= size)
        if not len(found):
            return 0
        begin = int(ends[found[0]])
        self._table[USED] = max(self._table[USED], begin + size - self._start)
        return begin

    def _taken(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the offsets and sizes of all items; damaged entries have none."""
        table = np.frombuffer(self._table, np.int64)[ENTRIES:]
        begins, sizes = table[0 : 2 * self._count : 2], table[1 : 2 * self._count : 2]
        end = self._start + self._max_bytes
        is_taken = (begins >= self._start) & (begins < end)
        is_taken &= (sizes > 0) & (sizes <= end - begins)
        return begins[is_taken], sizes[is_taken]

    def usage(self) -> tuple[int, int]:
        """Return the number of stored items, and their bytes."""
        _, sizes = self._taken()
        return len(sizes), int(sizes.sum())
