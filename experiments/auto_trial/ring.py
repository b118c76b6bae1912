"""Upstream and a ring on a virtual clock: which records are there, and when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from auto_trial.upstreams import Stops, Upstream

_TICK = 1e-6  # of a draw's time: what rounding may come to


class Work:
    """Upstream's working time, which stands still while upstream is stopped."""

    def __init__(self, stops: Stops) -> None:
        self._starts = [start for start, _ in stops]
        self._stopped = np.cumsum([0.0, *(seconds for _, seconds in stops)]).tolist()
        self._at = np.subtract(self._starts, self._stopped[:-1]).tolist()

    def worked(self, now: float) -> float:
        """Return the working time at a time of the clock."""
        stops = bisect_right(self._starts, now)
        worked: float = now - self._stopped[stops]
        return max(worked, self._at[stops - 1]) if stops else worked

    def clock(self, worked: float) -> float:
        """Return the first time of the clock with that working time."""
        stopped: float = self._stopped[bisect_left(self._at, worked)]
        return worked + stopped


class Ring:
    """Upstream's side: which records are there, and when."""

    def __init__(self, upstream: Upstream, capacity: int) -> None:
        self.n = len(upstream.times)
        self.held_back = False
        self.late = 0.0  # all the working time that upstream waited for room
        self._work = Work(upstream.stops)
        self._capacity = capacity
        self._limit = capacity
        self._made: list[float] = np.cumsum(upstream.times).tolist()

    def committed(self, now: float) -> int:
        """Return the number of resident records."""
        worked = self._work.worked(now)
        made = bisect_right(self._made, worked - self.late + _TICK)
        self.held_back |= made > self._limit
        return min(made, self._limit)

    def when(self, number: int) -> float:
        """Return the time at which `count` records will have arrived; they must fit."""
        return self._work.clock(self._made[min(number, self.n) - 1] + self.late)

    def release(self, oldest: int, now: float) -> None:
        """Free all slots below `oldest`, and let a waiting upstream continue."""
        limit = oldest + self._capacity
        if limit == self._limit:
            return
        if self._limit < self.n:
            worked = self._work.worked(now)
            self.late += max(0.0, worked - self._made[self._limit] - self.late)
        self._limit = limit
