"""A process that makes rollouts, and the thread that puts them into a window.

The process writes each rollout into a slot of memory that both share, and releases a
semaphore: from then on the rollout is committed. Nothing is pickled, and no lock is
held that a process could die with. If the process dies, what it had committed is put,
what it was writing is dropped, and another process takes its place.
"""

from __future__ import annotations

import itertools
import multiprocessing
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from echobuf import ClosedError, EchoBuffer, Field

_context = multiprocessing.get_context("spawn")
_POLL_S = 0.1


class Policy:
    """Weights that one process writes and others read, whole, without a lock.

    It relies on a processor that keeps the order of writes, as x86-64 does.

    Args:
        size: number of float32 weights.
    """

    def __init__(self, size: int) -> None:
        # Of two copies, the one of the last version is never written to.
        self._copies = _context.RawArray("f", 2 * size)
        self._version = _context.RawValue("q", -1)

    def publish(self, weights: np.ndarray, version: int) -> None:
        """Write weights; versions are 0, 1, 2, ..."""
        self._views()[version % 2] = weights
        self._version.value = version

    def read(self) -> tuple[np.ndarray, int]:
        """Return a copy of the newest weights, and their version."""
        while True:
            version = self._version.value
            weights = self._views()[version % 2].copy()
            if self._version.value == version:
                return weights, version

    def _views(self) -> np.ndarray:
        return np.frombuffer(self._copies, np.float32).reshape(2, -1)


class Slots:
    """Memory for some rollouts, and semaphores that say which are free and committed.

    Args:
        spec: a dict of fields, as the window's.
        count: of slots.
    """

    def __init__(self, spec: dict[str, Field], count: int) -> None:
        self._layout = np.dtype(
            [(name, field.dtype, field.shape) for name, field in spec.items()],
            align=True,
        )
        self._memory = _context.RawArray("b", count * self._layout.itemsize)
        self._versions = _context.RawArray("q", count)
        self.free, self.committed = _context.Semaphore(count), _context.Semaphore(0)

    def records(self) -> list[dict[str, np.ndarray]]:
        """Return the arrays of each slot, by name."""
        table = np.frombuffer(self._memory, self._layout)
        names = self._layout.names or ()
        # [...] makes an array of a field without a shape, too.
        return [{n: table[n][i, ...] for n in names} for i in range(len(table))]

    def versions(self) -> np.ndarray:
        """Return the version of each slot."""
        return np.frombuffer(self._versions, np.int64)


Play = Callable[[dict[str, np.ndarray]], int]
"""Writes a rollout into arrays, and returns the version of the policy; raises
StopIteration where there is nothing more to play."""


def generate(make_play: Callable[[], Play], slots: Slots) -> None:
    """Make rollouts until the trainer has gone: the main function of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the trainer handles it
    trainer = multiprocessing.parent_process()
    play, records, versions = make_play(), slots.records(), slots.versions()
    for number in itertools.count():
        while not slots.free.acquire(timeout=_POLL_S):
            if trainer is None or not trainer.is_alive():
                return
        at = number % len(records)
        try:
            versions[at] = play(records[at])
        except StopIteration:
            return
        slots.committed.release()


class Generator(threading.Thread):
    """A thread that has a process make rollouts, and puts them into a window.

    It closes the window after the last rollout, if there is one.

    Args:
        buffer: the window.
        spec: of it, a dict of fields.
        make_play: called in the process; it must be picklable.
        slots: rollouts that the process may be ahead of the window.
        max_restarts: processes that may die.

    Attributes:
        process: that makes rollouts now.
    """

    def __init__(
        self,
        buffer: EchoBuffer,
        spec: dict[str, Field],
        make_play: Callable[[], Play],
        *,
        slots: int = 16,
        max_restarts: int = 3,
    ) -> None:
        super().__init__(daemon=True)
        self._buffer, self._spec, self._make_play = buffer, spec, make_play
        self._count, self._max_restarts = slots, max_restarts
        self._stopped = threading.Event()
        self.process: Any = None

    def run(self) -> None:
        """Put what is committed; start another process where one has died."""
        try:
            for _ in range(self._max_restarts + 1):
                self._put_all()
                if self._stopped.is_set():
                    return
                if self.process.exitcode == 0:
                    self._buffer.close()
                    return
            code = self.process.exitcode
            self._buffer.fail(RuntimeError(f"generators die, with exit code {code}"))
        except ClosedError:  # the learner has ended
            return
        except BaseException as error:
            self._buffer.fail(error)
        finally:
            if self.process.pid is not None:
                self.process.kill()
                self.process.join()

    def stop(self) -> None:
        """End the process and the thread. Close the window before."""
        self._stopped.set()
        self.join()

    def _put_all(self) -> None:
        """Start a process, and put what it commits until it ends."""
        slots = Slots(self._spec, self._count)
        self.process = _context.Process(
            target=generate, args=(self._make_play, slots), daemon=True
        )
        self.process.start()
        records, versions = slots.records(), slots.versions()
        for number in itertools.count():
            while not slots.committed.acquire(timeout=_POLL_S):
                if self._stopped.is_set():
                    return
                # What it committed just before it died is there by now.
                if not self.process.is_alive():
                    if slots.committed.acquire(block=False):
                        break
                    return
            at = number % len(records)
            self._buffer.put(records[at], version=int(versions[at]))
            slots.free.release()
