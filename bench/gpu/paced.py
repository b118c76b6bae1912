"""An upstream that takes a given time for each example, while it is measured."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))
from pacing import PacedWork


class Paced:
    """A thread that hands examples on; between two measurements its clock stands.

    The time that `hand_on` takes, or waits, is not made up for.

    Args:
        records: leaves by name, stacked on axis 0; they come again and again.
        chunk: examples handed on at a time.
        hand_on: gets `chunk` examples; may wait.
        per_example_s: what an example takes upstream; 0: nothing.
    """

    def __init__(
        self,
        records: dict[str, Any],
        chunk: int,
        hand_on: Callable[[dict[str, Any]], None],
        per_example_s: float = 0.0,
    ) -> None:
        self._records = records
        self._chunk = chunk
        self._hand_on = hand_on
        self._cost_s = per_example_s * chunk
        self._changed = threading.Condition()
        self._going = True
        self._ended = False
        self._pace = PacedWork(self._now, self._sleep)
        self._stopped_s = 0.0  # when the clock stopped
        self._stood_s = 0.0  # how long it stood before that
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    @property
    def is_paused(self) -> bool:
        """Return whether the clock is stopped."""
        return not self._going

    @property
    def is_alive(self) -> bool:
        """Return whether the thread has not ended."""
        return self._thread.is_alive()

    def join(self) -> None:
        """Wait until the thread ends by itself."""
        self._thread.join()

    def pause(self) -> None:
        """Stop the clock; the rest of an example's time follows after `go`."""
        with self._changed:
            if self._going:
                self._going, self._stopped_s = False, time.perf_counter()

    def go_on(self) -> None:
        """Restart the clock."""
        with self._changed:
            if not self._going:
                self._going = True
                self._stood_s += time.perf_counter() - self._stopped_s
            self._changed.notify_all()

    def end(self) -> None:
        """End the thread, which must not be waiting."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join(10)

    def _work(self) -> None:
        at, count = 0, len(next(iter(self._records.values())))
        try:
            while self._wait():
                stop = at + self._chunk
                self._hand_on({n: leaf[at:stop] for n, leaf in self._records.items()})
                at = stop if stop + self._chunk <= count else 0
        except Exception as error:  # a buffer that is closed ends it, too
            self.error = error

    def _wait(self) -> bool:
        """Wait until the next chunk is there; False if there will be none."""
        with self._changed:
            self._pace.work(self._cost_s)
            self._changed.wait_for(lambda: self._going or self._ended)
            return not self._ended

    def _now(self) -> float:
        return (time.perf_counter() if self._going else self._stopped_s) - self._stood_s

    def _sleep(self, seconds: float) -> None:
        end = self._now() + seconds
        while not self._ended and (left := end - self._now()) > 0:
            self._changed.wait(left if self._going else None)
