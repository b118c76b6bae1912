"""Threads that can be joined where Ctrl-C may come."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any


class DaemonThread(threading.Thread):
    """A daemon whose end is known for certain.

    Up to Python 3.12 a `KeyboardInterrupt` that is raised in `Thread.join(timeout)`
    marks a running thread as ended: `is_alive` is false from then on, and `join`
    returns at once.

    Args:
        target: called on the thread.
        args: its arguments, which go when it returns.
        name: of the thread.
    """

    def __init__(
        self, target: Callable[..., Any], args: tuple[Any, ...] = (), *, name: str
    ) -> None:
        super().__init__(target=target, args=args, name=name, daemon=True)
        self._returned = threading.Event()
        self._process = os.getpid()

    def run(self) -> None:
        """Call the target."""
        try:
            super().run()
        finally:
            self._returned.set()

    def is_alive(self) -> bool:
        """Return whether the target was called, here, and has not returned."""
        is_here = self.ident is not None and self._process == os.getpid()
        return is_here and not self._returned.is_set()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the target to return; Ctrl-C gets through."""
        if self is threading.current_thread():
            raise RuntimeError("cannot join current thread")
        if self.is_alive():
            self._returned.wait(timeout)
