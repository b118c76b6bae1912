"""Upstreams and steps that take no time but that of a clock of their own."""

import threading
import time
from unittest import mock

import numpy as np

import echobuf
from echobuf.analysis import timing


def measure(upstream, step, *, clock=time.perf_counter, **arguments):
    """Return what `analyze` measures on a clock."""
    with mock.patch.object(timing, "now", clock):
        return echobuf.analyze(upstream, step, **arguments).measurements


class VirtualClock:
    """Seconds that pass when somebody says so, on any thread."""

    def __init__(self):
        self._now = 0.0
        self._lock = threading.Lock()

    def __call__(self):
        with self._lock:
            return self._now

    def pass_by(self, seconds):
        with self._lock:
            self._now += seconds


class Batches:
    """Batches of 4 examples, each of which takes `seconds`, the first one `startup_s`.

    Attributes:
        passes: the numbers of the items that each pass gave.
    """

    SIZE = 4

    def __init__(self, clock, count, seconds, startup_s=0.0):
        self._clock = clock
        self._count = count
        self._seconds = seconds
        self._startup_s = startup_s
        self.passes = []

    def __iter__(self):
        numbers = []
        self.passes.append(numbers)
        self._clock.pass_by(self._startup_s)
        for number in range(self._count):
            seconds = self._seconds
            if callable(seconds):
                seconds = seconds(len(self.passes), number)
            self._clock.pass_by(seconds)
            numbers.append(number)
            yield {"x": np.full((self.SIZE, 2), number, np.float32)}


def step_of(clock, seconds):
    """A step that takes so long."""

    def step(batch):
        clock.pass_by(seconds)

    return step
