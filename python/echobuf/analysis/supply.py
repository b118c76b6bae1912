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
        self.time_s = 0.0  # of the last decision

    def next_pass(self, time_s: float) -> bool:
        """Whether there is one, after those before it are drawn at `time_s`."""
        self.time_s = time_s
        while (answer := self._ask()) == "wait":
            needed = self._schedule.start(self._filled(self.time_s) + 1)
            self._give_room()
            self.time_s = self._arrivals.time(min(needed, self._count) - 1)
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
        there = self._arrivals.number(self.time_s)
        free = self._limit() - there
        held_back = self._arrivals.is_held_back(self.time_s)
        filled = self._filled(self.time_s)
        return self._advance(filled, free, held_back, there == self._count)

    def _first_pass(self, filled: int, free: int, held_back: bool, ended: bool) -> str:
        return "pass" if self._schedule.first_pass(filled, ended) else "wait"

    def _resume(self, filled: int, free: int, held_back: bool, ended: bool) -> str:
        return self._schedule.resume(filled, ended)

    def _filled(self, time_s: float) -> int:
        """Segments that are; after the end the last, partial one is, too."""
        there = self._arrivals.number(time_s)
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
