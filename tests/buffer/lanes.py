"""Threads that calls are handed to; a call that blocks stays in flight."""

import functools
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from helpers import WAIT_S, until


class Call:
    """One call on a thread of the pool, and what has come of it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._done = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._value = self._work()
        except BaseException as error:
            self._error = error
        self._done.set()

    @property
    def done(self) -> bool:
        return self._done.is_set()

    def error(self) -> BaseException | None:
        """Wait for its end and return its error."""
        assert self._done.wait(WAIT_S), "the call hangs"
        return self._error

    def result(self) -> Any:
        """Wait for its end and return its result, or raise its error."""
        error = self.error()
        if error is not None:
            raise error
        return self._value


class Lanes:
    """A pool of threads; each takes one call at a time, and all outlive a test."""

    def __init__(self, number: int) -> None:
        self._queues: list[queue.SimpleQueue[Call]] = []
        self._last: list[Call | None] = [None] * number
        for _ in range(number):
            calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
            self._queues.append(calls)
            threading.Thread(target=self._serve, args=(calls,), daemon=True).start()

    @staticmethod
    def _serve(calls: "queue.SimpleQueue[Call]") -> None:
        while True:
            calls.get().run()

    def free(self) -> list[int]:
        """The threads that are in no call."""
        return [i for i, last in enumerate(self._last) if last is None or last.done]

    def start(self, turn: int, work: Callable[[], Any]) -> Call:
        """Hands a call to one of the free threads; does not wait for it."""
        free = self.free()
        lane = free[turn % len(free)]
        call = Call(work)
        self._last[lane] = call
        self._queues[lane].put(call)
        return call


def when(condition: Callable[[Any], bool]) -> Callable[..., Any]:
    """A rule that does nothing unless its condition holds.

    A precondition must not depend on timing, or no sequence could be played again.
    """

    def decorate(rule: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(rule)
        def run(machine: Any, **kwargs: Any) -> None:
            if condition(machine):
                rule(machine, **kwargs)

        return run

    return decorate


def wait_for_some(calls: Sequence[Call], number: int) -> list[Call]:
    """The calls that have ended, once `number` of them have; no more may have."""
    until(lambda: sum(call.done for call in calls) >= number)
    ended = [call for call in calls if call.done]
    assert len(ended) == number, "a call returned that had to wait"
    return ended
