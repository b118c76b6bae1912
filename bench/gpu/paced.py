"""An upstream that takes a given time for each example, while it is measured."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any


class Paced:
    """A thread that hands examples on; between two measurements its clock stands.

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
        self._due_s: float | None = None  # on the clock; None: nothing has begun
        self._stopped_s = 0.0
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def pause(self) -> None:
        """Stops the clock: what is left of an example's time is left after it."""
        with self._changed:
            self._going, self._stopped_s = False, time.perf_counter()

    def go_on(self) -> None:
        """Lets the clock go on."""
        with self._changed:
            if not self._going and self._due_s is not None:
                self._due_s += time.perf_counter() - self._stopped_s
            self._going = True
            self._changed.notify_all()

    def end(self) -> None:
        """Ends the thread; whoever makes it wait must have let go of it."""
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
        """Until the next chunk is there; False if there will be none."""
        with self._changed:
            if self._cost_s:
                now = time.perf_counter()
                # One that was waited for downstream does not make up for it.
                last = now if self._due_s is None else max(self._due_s, now - 0.01)
                self._due_s = last + self._cost_s
            while not self._ended:
                left = 0.0
                if self._due_s is not None:
                    left = self._due_s - time.perf_counter()
                if self._going and left <= 0:
                    return True
                self._changed.wait(left if self._going else None)
            return False
