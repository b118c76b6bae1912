"""What the schedule of factor "auto" is told when a pass ends."""

from __future__ import annotations

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
        self._give_room()
        return answer == "pass"

    def length(self) -> int:
        """Records of the pass."""
        schedule = self._schedule
        return min(schedule.start(schedule.hi), self._count) - schedule.start(
            schedule.lo
        )

    def _ask(self) -> str:
        return self._schedule.advance(
            self._there,
            held_back=self._held_back,
            ended=self._there == self._count,
        )

    def _look(self, time_s: float) -> None:
        """What a batch that is drawn at `time_s` finds."""
        self.time_s = time_s
        self._there = self._arrivals.number(time_s)
        self._held_back = self._arrivals.is_held_back(time_s)

    def _filled(self) -> int:
        """Segments that are."""
        filled = self._schedule.hi
        while self._schedule.start(filled + 1) <= self._there:
            filled += 1
        return filled

    def _give_room(self) -> None:
        schedule = self._schedule
        limit = schedule.start(schedule.lo) + schedule.capacity
        self._arrivals.give_room(limit, self.time_s)
