"""Work of a known duration, exact on average however coarsely the machine sleeps."""

from __future__ import annotations

import time

__all__ = ["Pace"]


class Pace:
    """Stands for work of `seconds` each time.

    Sleeping too long once shortens the next sleep, as long as the worker was busy all
    the time; after a wait, work begins when the wait ended.
    """

    IDLE_S = 200e-6  # a call that took longer than this was a wait

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._due = time.perf_counter()

    def work(self, called: float, returned: float) -> None:
        """Works, after a call that lasted from `called` to `returned`."""
        begin = returned if returned - called > self.IDLE_S else self._due
        self._due = max(begin, self._due) + self.seconds
        left = self._due - time.perf_counter()
        if left > 0:
            time.sleep(left)
