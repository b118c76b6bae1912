"""Threads that can be told to end, and joined, where Ctrl-C may come."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any

_SLICE_S = 0.1


class Signal:
    """An event that is set once, which Ctrl-C cannot break.

    A `KeyboardInterrupt` inside `threading.Event`, which is written in Python, leaves
    its lock taken, and every thread that comes after blocks. The methods of the lock
    here are those of C: they are done or not.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def is_set(self) -> bool:
        """Return whether it was set."""
        return self._is_set

    def set(self) -> None:
        """Set it, and wake the threads that wait."""
        self._is_set = True
        self._pass_on()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set; return whether it is.

        Args:
            timeout: seconds to wait at most.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not self._is_set:
            left = _SLICE_S if end is None else min(_SLICE_S, end - time.monotonic())
            if left <= 0:
                break
            # In slices: a waiter that is interrupted here passes nothing on.
            if self._lock.acquire(timeout=left):
                self._pass_on()
        return self._is_set

    def _pass_on(self) -> None:
        with contextlib.suppress(RuntimeError):  # another thread has done so
            self._lock.release()


class DaemonThread(threading.Thread):
    """A daemon that is joined until its target has returned.

    Up to Python 3.12 a `KeyboardInterrupt` that is raised in `Thread.join(timeout)`
    marks a running thread as ended: `is_alive` is false from then on, and `join`
    returns at once. One that is raised in `Thread.start` may keep the thread from
    calling its target for ever: that thread counts as not alive.

    Args:
        target: called on the thread.
        args: its arguments, which go when it returns.
        name: of the thread.
    """

    def __init__(
        self, target: Callable[..., Any], args: tuple[Any, ...] = (), *, name: str
    ) -> None:
        super().__init__(target=target, args=args, name=name, daemon=True)
        self._has_begun = False
        self._returned = Signal()
        self._process = os.getpid()

    def start(self) -> None:
        """Start the thread; once this returns it is alive."""
        super().start()
        self._has_begun = True

    def run(self) -> None:
        """Call the target."""
        self._has_begun = True
        try:
            super().run()
        finally:
            self._returned.set()

    def is_alive(self) -> bool:
        """Return whether the target was called, here, and has not returned."""
        is_here = self._has_begun and self._process == os.getpid()
        return is_here and not self._returned.is_set()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the target to return; Ctrl-C gets through."""
        if self is threading.current_thread():
            raise RuntimeError("cannot join current thread")
        if self.is_alive():
            self._returned.wait(timeout)
