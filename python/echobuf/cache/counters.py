"""Counts that all processes of a cache add to."""

from __future__ import annotations

import os
import threading

from echobuf.cache.shared import SharedMemory

_SLOTS = 1024
_WIDTH = 4  # words: the process that counts here, hits, misses, damaged


class Counters:
    """Hits, misses and damaged items.

    Each process counts in a slot of its own. That of one that is gone goes to another,
    which counts on from there: the sums stay right.
    """

    def __init__(self) -> None:
        self._memory = SharedMemory(_SLOTS * _WIDTH * 8)
        self._forget()

    def _forget(self) -> None:
        self._words = self._memory.view.cast("Q")
        self._lock = threading.Lock()
        self._process = 0

    def __getstate__(self) -> SharedMemory:
        return self._memory

    def __setstate__(self, memory: SharedMemory) -> None:
        self._memory = memory
        self._forget()

    def add(self, *, hits: int = 0, misses: int = 0, damaged: int = 0) -> None:
        """Counts, for this process."""
        if self._process != os.getpid():
            self._claim()
        with self._lock:
            at = self._slot
            self._words[at + 1] += hits
            self._words[at + 2] += misses
            self._words[at + 3] += damaged

    def sums(self) -> tuple[int, int, int]:
        """Hits, misses and damaged items of all processes."""
        hits, misses, damaged = (sum(self._words[i::_WIDTH]) for i in (1, 2, 3))
        return hits, misses, damaged

    def _claim(self) -> None:
        with self._memory.locked():
            if self._process == os.getpid():
                return  # another thread was faster
            slots = range(0, _SLOTS * _WIDTH, _WIDTH)
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
