"""Work of a known duration, exact on average however coarsely the machine sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Pace"]


class Pace:
    """A worker that sleeps in place of working.

    Work begins when it is asked for, so the time that a call took before it is never
    made up for. Only the time by which a sleep overshot its end is credited, to the
    sleeps that follow.

    Args:
        clock: Returns the time in seconds.
        sleep: Waits for some seconds, or longer.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._overshot_s = 0.0

    def work(self, seconds: float) -> None:
        """Work for `seconds` from now, less the time that earlier sleeps overshot."""
        now = self._clock()
        end = now + seconds - self._overshot_s
        if end > now:
            self._sleep(end - now)
            now = self._clock()
        self._overshot_s = now - end
