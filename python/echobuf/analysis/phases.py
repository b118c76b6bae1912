"""The order of what is measured, and how the time is shared out."""

from __future__ import annotations

from collections.abc import Callable

from echobuf.analysis.reading import Reading

Clock = Callable[[], float]

# Each phase has its share of what is left; what one does not need, later ones have.
SHARES = {
    "upstream, first pass": 0.30,
    "step": 0.15,
    "upstream, second pass": 0.25,
    "together": 0.25,
    "parts of the DataLoader": 0.05,
}
_LEAST = 1 / 60  # of the whole time: a phase is not over before, however narrow
_PATIENCE = 2.0  # times its share: a phase goes on without an interval until then


class Phase:
    """One thing that is measured.

    Args:
        allowed_s: seconds that it may take.
        least_s: seconds that it takes at least.
        interval: relative half-width of the interval at which it stops.
        clock: seconds.

    Attributes:
        allowed_s: seconds that it may take.
        interval: relative half-width of the interval at which it stops.
    """

    def __init__(
        self, allowed_s: float, least_s: float, interval: float, clock: Clock
    ) -> None:
        self._clock = clock
        self._begin = clock()
        self._least_s = least_s
        self.allowed_s = allowed_s
        self.interval = interval

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return self._clock() - self._begin

    @property
    def has_time(self) -> bool:
        """Whether its time is not used up."""
        return self.elapsed_s < self.allowed_s

    def is_over(self, reading: Reading) -> bool:
        """Whether enough is known, or the time used; there is an interval, mostly."""
        if reading.count < 2:
            return False
        elapsed = self.elapsed_s
        if elapsed >= self.allowed_s:
            return reading.has_interval or elapsed >= _PATIENCE * self.allowed_s
        return elapsed >= self._least_s and reading.is_narrow(self.interval)


class Budget:
    """The time for all phases.

    Args:
        seconds: for all of them together.
        interval: relative half-width at which one stops.
        clock: seconds.
        tell: is called with the name of each phase as it begins.
    """

    def __init__(
        self,
        seconds: float,
        interval: float,
        clock: Clock,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self._seconds = seconds
        self._interval = interval
        self._clock = clock
        self._tell = tell
        self._begin = clock()
        self._left = dict(SHARES)

    @property
    def elapsed_s(self) -> float:
        """Seconds since it was made."""
        return self._clock() - self._begin

    def begin(self, name: str) -> Phase:
        """Begins a phase of `SHARES`; those before it that were left out are over."""
        if self._tell is not None:
            self._tell(name)
        while next(iter(self._left)) != name:
            del self._left[next(iter(self._left))]
        left = max(0.0, self._seconds - self.elapsed_s)
        allowed = left * self._left[name] / sum(self._left.values())
        del self._left[name]
        return Phase(allowed, self._seconds * _LEAST, self._interval, self._clock)
