"""Waiting for upstream, with an end to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from echobuf.errors import UpstreamError

T = TypeVar("T")

_SLICE_S = 0.05  # Ctrl-C gets through that often


class Watch:
    """What the work on the other thread tells of itself, and is told.

    Attributes:
        stopped: the work is to end when upstream's current call returns.
    """

    def __init__(self) -> None:
        self.stopped = False
        self.count = 0  # items that came
        self._last = time.monotonic()

    def beat(self) -> None:
        """Something came."""
        self.count += 1
        self._last = time.monotonic()

    def silent_s(self) -> float:
        """Seconds since the last beat."""
        return time.monotonic() - self._last


class _Work(threading.Thread, Generic[T]):
    def __init__(self, work: Callable[[Watch], T], watch: Watch) -> None:
        super().__init__(name="echobuf-analyze", daemon=True)
        self._work: Callable[[Watch], T] | None = work
        self._watch = watch
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        work, self._work = self._work, None
        assert work is not None
        try:
            self.value = work(self._watch)
        except BaseException as error:
            self.error = error


def watched(work: Callable[[Watch], T], timeout: float) -> T:
    """Runs `work` on a thread of its own, as a loader does, while it makes progress.

    Args:
        work: calls `watch.beat()` for each item, and ends when `watch.stopped`.
        timeout: seconds between two beats at most.

    Raises:
        UpstreamError: no beat for so long. The thread is left: it ends when upstream's
            current call returns.
    """
    watch = Watch()
    thread = _Work(work, watch)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_SLICE_S)
            if watch.silent_s() > timeout and thread.is_alive():
                raise _silent(watch.count, timeout)
    except BaseException:
        watch.stopped = True
        raise
    if thread.error is not None:
        raise thread.error
    value: T = thread.value
    return value


def _silent(count: int, timeout: float) -> UpstreamError:
    after = f"after {count} items" if count else "at all"
    return UpstreamError(
        f"`upstream` has yielded nothing {after} for {timeout:g} s; see what it waits "
        "for, or, if an item may take longer, give a larger `timeout`."
    )
