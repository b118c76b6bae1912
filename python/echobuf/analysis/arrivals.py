"""When examples arrive in the ring, if each takes upstream its mean time."""

from __future__ import annotations

import math
from collections import deque


class Arrivals:
    """Upstream makes items one after another, and waits while the ring is full.

    Questions are asked in the order of time.

    Args:
        count: examples in all.
        item: examples that upstream yields at a time.
        example_s: t_upstream, seconds per example.
        capacity: slots of the ring.
        begin_s: when it begins with the first item.
    """

    def __init__(
        self,
        count: int,
        item: int,
        example_s: float,
        capacity: int,
        begin_s: float = 0.0,
    ) -> None:
        self._count = count
        self._item = item
        self._example_s = example_s
        self._items = 0  # items of which all examples are put
        self._put_s = begin_s  # when the last of them was
        # Examples below the first number may be put from the second, a time, on.
        self._room: deque[tuple[int, float]] = deque([(capacity, 0.0)])

    def give_room(self, limit: int, time_s: float) -> None:
        """Examples below `limit` may be put from `time_s` on."""
        self._room.append((limit, time_s))

    def time(self, example: int) -> float:
        """When `example` is in the ring."""
        self._advance(example // self._item)
        return max(self._made_s(), self._room_for(example)[1])

    def number(self, time_s: float) -> int:
        """How many examples are in the ring, or have been, at `time_s`."""
        while self._first() < self._count and self._done_s() <= time_s:
            self._put_s = self._done_s()
            self._items += 1
            self._put_until(time_s)
        if self._made_s() > time_s:
            return min(self._first(), self._count)
        return min(self._room[-1][0], self._count)

    def is_held_back(self, time_s: float) -> bool:
        """Whether upstream waits for room at `time_s`, up to which it was asked."""
        return self._first() < self._count and self._made_s() <= time_s

    def _put_until(self, time_s: float) -> None:
        """Puts the whole items that do not have to wait for room."""
        item_s = self._item * self._example_s
        limit = min(self._room[0][0], self._count)
        more = max(0, limit // self._item - self._items)
        if item_s > 0:
            more = int(min(more, (time_s - self._put_s) / item_s))
        self._put_s += more * item_s
        self._items += more

    def _first(self) -> int:
        """The first example of the item that upstream is at."""
        return self._items * self._item

    def _made_s(self) -> float:
        """When upstream has made that item, which may be shorter at the end."""
        length = min(self._item, self._count - self._first())
        return self._put_s + length * self._example_s

    def _done_s(self) -> float:
        """When all of it is put."""
        last = min(self._first() + self._item, self._count) - 1
        return max(self._made_s(), self._room_for(last)[1])

    def _advance(self, items: int) -> None:
        """Puts items up to, and without, that number."""
        item_s = self._item * self._example_s
        while self._items < items:
            limit, since = self._room_for(self._first() + self._item - 1)
            # The first may have waited for room; those that fit beside it do not.
            run = max(1, min(items, limit // self._item) - self._items)
            self._put_s = max(self._put_s + item_s, since) + (run - 1) * item_s
            self._items += run

    def _room_for(self, example: int) -> tuple[int, float]:
        """The limit that lets it in, and since when; infinite as long as none does."""
        while len(self._room) > 1 and self._room[0][0] <= example:
            self._room.popleft()
        return self._room[0] if self._room[0][0] > example else (example, math.inf)
