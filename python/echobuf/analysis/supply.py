"""What the schedule of factor "auto" is told when a pass ends."""

from __future__ import annotations

from collections.abc import Callable

from echobuf import _core
from echobuf.analysis.arrivals import Arrivals


class Supply:
    """Asks the schedule for the next pass, as upstream stands then.

    Args:
        schedule: the core's own.
        arrivals: upstream.
        count: fresh examples in all.
    """

    def __init__(
        self, schedule: _core.AutoSchedule, arrivals: Arrivals, count: int
    ) -> None:
        self._schedule = schedule
        self._arrivals = arrivals
        self._count = count
        self._advance: Callable[[int, int, bool, bool], str] = self._first_pass
        self._there = 0  # examples, and whether upstream is held back, when it is asked
        self._held_back = False
        self.time_s = -1.0  # of the last decision

    def next_pass(self, time_s: float) -> bool:
        """Whether there is one, after those before it are drawn at `time_s`."""
        if time_s != self.time_s:  # else another pass of the same batch
            self._look(time_s)
        while (answer := self._ask()) == "wait":
            needed = self._schedule.start(self._filled() + 1)
            self._give_room()
            self._look(self._arrivals.time(min(needed, self._count) - 1))
            if self._advance == self._schedule.end_pass:
                self._advance = self._resume
        self._give_room()
        self._advance = self._schedule.end_pass
        return answer == "pass"

    def length(self) -> int:
        """Records of the pass."""
        schedule = self._schedule
        return self._end() - schedule.start(schedule.lo)

    def _end(self) -> int:
        return min(self._schedule.start(self._schedule.hi), self._count)

    def _ask(self) -> str:
        free = self._limit() - self._there
        ended = self._there == self._count
        return self._advance(self._filled(), free, self._held_back, ended)

    def _look(self, time_s: float) -> None:
        """What a batch that is drawn at `time_s` finds."""
        self.time_s = time_s
        self._there = self._arrivals.number(time_s)
        self._held_back = self._arrivals.is_held_back(time_s)

    def _first_pass(self, filled: int, free: int, held_back: bool, ended: bool) -> str:
        return "pass" if self._schedule.first_pass(filled, ended) else "wait"

    def _resume(self, filled: int, free: int, held_back: bool, ended: bool) -> str:
        return self._schedule.resume(filled, ended)

    def _filled(self) -> int:
        """Segments that are; after the end the last, partial one is, too."""
        there = self._there
        filled = self._schedule.hi
        if self._end() == there:
            return filled
        while self._schedule.start(filled + 1) <= there:
            filled += 1
        partly = self._schedule.start(filled) < there == self._count
        return filled + 1 if partly else filled

    def _limit(self) -> int:
        return self._schedule.start(self._schedule.lo) + self._schedule.capacity

    def _give_room(self) -> None:
        self._arrivals.give_room(self._limit(), self.time_s)
