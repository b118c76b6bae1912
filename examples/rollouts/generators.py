"""A process that makes rollouts, and the thread that puts them into a window.

The process writes each rollout into a slot of memory that both share, and releases a
semaphore: from then on the rollout is committed. Nothing is pickled, and no lock is
held that a process could die with. If the process dies, what it had committed is put,
what it was writing is dropped, and another process takes its place.
"""

from __future__ import annotations

import itertools
import math
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
        self.count = count
        self._spec = {name: (f.dtype, f.shape) for name, f in spec.items()}
        self._memory = {
            name: _context.RawArray("b", count * dtype.itemsize * math.prod(shape))
            for name, (dtype, shape) in self._spec.items()
        }
        self._versions = _context.RawArray("q", count)
        self.free, self.committed = _context.Semaphore(count), _context.Semaphore(0)

    def stacked(self) -> dict[str, np.ndarray]:
        """Return the arrays of all slots, by name."""
        return {
            name: np.frombuffer(self._memory[name], dtype).reshape(-1, *shape)
            for name, (dtype, shape) in self._spec.items()
        }

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
    play, arrays, versions = make_play(), slots.stacked(), slots.versions()
    for at in itertools.cycle(range(slots.count)):
        while not slots.free.acquire(timeout=_POLL_S):
            if trainer is None or not trainer.is_alive():
                return
        try:
            # [at, ...] is an array where a field has no shape, too.
            versions[at] = play({name: a[at, ...] for name, a in arrays.items()})
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
        arrays, versions, first = slots.stacked(), slots.versions(), 0
        while count := self._wait(slots, slots.count - first):
            part = slice(first, first + count)
            batch = {name: array[part] for name, array in arrays.items()}
            self._buffer.put_batch(batch, version=versions[part])
            for _ in range(count):
                slots.free.release()
            first = (first + count) % slots.count

    def _wait(self, slots: Slots, most: int) -> int:
        """Return how many rollouts are committed, 0 if no more will be."""
        while not slots.committed.acquire(timeout=_POLL_S):
            if self._stopped.is_set():
                return 0
            if not self.process.is_alive():
                # It may have committed some just before it died.
                if not slots.committed.acquire(block=False):
                    return 0
                break
        count = 1
        while count < most and slots.committed.acquire(block=False):
            count += 1
        return count
