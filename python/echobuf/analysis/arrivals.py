"""When examples arrive in the ring, for an upstream that takes its mean time for each."""

from __future__ import annotations

from collections import deque


class Arrivals:
    """Upstream makes items one after another, and waits while the ring is full.

    Args:
        count: examples in all.
        item: examples that upstream yields at a time.
        example_s: t_upstream, seconds per example.
        capacity: slots of the ring.
    """

    def __init__(
        self, count: int, item: int, example_s: float, capacity: int
    ) -> None:
        self._count = count
        self._item = item
        self._example_s = example_s
        self._items = 0  # items that are put, all of their examples
        self._put_s = 0.0  # when the last of them was
        # Examples below the first number may be put from the second, a time, on.
        self._room: deque[tuple[int, float]] = deque([(capacity, 0.0)])

    def give_room(self, limit: int, time_s: float) -> None:
        """Examples below `limit` may be put from `time_s` on. Both only grow."""
        self._room.append((limit, time_s))

    def time(self, example: int) -> float:
        """When `example` is in the ring. Asked for in growing order."""
        self._advance(example // self._item)
        first = self._items * self._item
        length = min(self._item, self._count - first)
        return max(self._put_s + length * self._example_s, self._room_for(example)[1])

    def _advance(self, items: int) -> None:
        """Puts items up to, and without, that number."""
        item_s = self._item * self._example_s
        while self._items < items:
            last = (self._items + 1) * self._item - 1
            limit, since = self._room_for(last)
            # The first may have waited for room; those that fit beside it do not.
            run = max(1, min(items, limit // self._item) - self._items)
            self._put_s = max(self._put_s + item_s, since) + (run - 1) * item_s
            self._items += run

    def _room_for(self, example: int) -> tuple[int, float]:
        while self._room[0][0] <= example:
            self._room.popleft()
        return self._room[0]
