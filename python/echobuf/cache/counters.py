"""Counts that all processes of a cache add to."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from echobuf.cache.shared import SharedMemory

_SLOTS = 1024


class Counters:
    """Sums, such as those of hits and misses.

    Each process counts in a slot of its own. That of one that is gone goes to another,
    which counts on from there: the sums stay right.

    Args:
        names: of what is counted.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._width = 1 + len(names)  # words: the process that counts here, its counts
        self._memory = SharedMemory(_SLOTS * self._width * 8)
        self._forget()

    def _forget(self) -> None:
        self._words = self._memory.view.cast("Q")
        self._lock = threading.Lock()
        self._process = 0

    def __getstate__(self) -> tuple[tuple[str, ...], SharedMemory]:
        return self._names, self._memory

    def __setstate__(self, state: tuple[tuple[str, ...], SharedMemory]) -> None:
        self._names, self._memory = state
        self._width = 1 + len(self._names)
        self._forget()

    def add(self, **counts: int) -> None:
        """Counts, for this process."""
        if self._process != os.getpid():
            self._claim()
        with self._lock:
            for name, count in counts.items():
                self._words[self._slot + 1 + self._names.index(name)] += count

    def sums(self) -> dict[str, int]:
        """What all processes have counted."""
        return {
            name: sum(self._words[at :: self._width])
            for at, name in enumerate(self._names, start=1)
        }

    def _claim(self) -> None:
        with self._memory.locked():
            if self._process == os.getpid():
                return  # another thread was faster
            slots = range(0, _SLOTS * self._width, self._width)
            self._slot = next((at for at in slots if self._is_free(at)), slots[-1])
            self._words[self._slot] = os.getpid()
            self._lock = threading.Lock()  # a thread of the parent may hold the old one
            self._process = os.getpid()

    def _is_free(self, at: int) -> bool:
        owner = self._words[at]
        if owner in (0, os.getpid()):
            return True
        try:
            os.kill(owner, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return False
