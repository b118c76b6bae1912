"""The GIL: kept for copies of some microseconds, given up for waits and long ones."""

import itertools
import sys
import threading

import numpy as np
import pytest

import echobuf
from echobuf.loader_buffer import LoaderBuffer
from helpers import WAIT_S

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(
        not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no GIL"
    ),
]

# 64 MiB: a hundred times what a thread takes to wake up.
LONG = echobuf.Field((1 << 20,), np.uint8)
SHORT = echobuf.Field((64,), np.uint8)


class Bystander:
    """A thread that runs a line of Python as soon as it gets the GIL.

    Args:
        interval: seconds after which Python itself takes the GIL from a thread.
    """

    def __init__(self, interval=1000.0):
        self._wanted_interval = interval
        self._asked = threading.Semaphore(0)
        self.runs = 0
        self._over = False
        self.note = self.noted = lambda: None  # noted: when it ran last
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while True:
            self._asked.acquire()
            if self._over:
                return
            self.noted = self.note()
            self.runs += 1

    def gets_in(self, call):
        """Return whether it ran during the call."""
        before = self.runs
        self._asked.release()  # from now on it wants the GIL
        call()
        during = self.runs > before
        while self.runs == before:  # let it catch up
            with self._breath:
                self._breath.wait(0.001)
        return during

    def __enter__(self):
        self._breath = threading.Condition()
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(self._wanted_interval)
        self._thread.start()
        return self

    def __exit__(self, *error):
        sys.setswitchinterval(self._interval)
        self._over = True
        self._asked.release()
        self._thread.join(WAIT_S)


def buffer_of(field, **options):
    return echobuf.EchoBuffer(field, batch_size=64, window=64, factor=1, **options)


def test_a_long_put_gives_it_up():
    with buffer_of(LONG) as buffer, Bystander() as other:
        rows = np.zeros((64, *LONG.shape), np.uint8)
        assert any(put_anew(buffer, rows, other) for _ in range(20))


def put_anew(buffer, rows, other):
    buffer.reset()
    return other.gets_in(lambda: buffer.put_batch(rows))


@pytest.mark.parametrize("into", [False, True])
def test_a_long_draw_gives_it_up(into):
    with buffer_of(LONG) as buffer, Bystander() as other:
        rows = np.zeros((64, *LONG.shape), np.uint8)
        out = rows.copy() if into else None
        assert any(draw_anew(buffer, rows, out, other) for _ in range(20))


def draw_anew(buffer, rows, out, other):
    buffer.reset()
    buffer.put_batch(rows)
    return other.gets_in(lambda: buffer.next_batch(out=out))


def test_short_ones_keep_it():
    """Getting it back from a busy thread would take a thousand times as long."""
    with buffer_of(SHORT) as buffer, Bystander() as other:
        rows = np.zeros((64, *SHORT.shape), np.uint8)
        for _ in range(20):
            buffer.reset()
            assert not other.gets_in(lambda: buffer.put(rows[0]))
            assert not other.gets_in(lambda: buffer.put_batch(rows[1:]))
            assert not other.gets_in(buffer.ready)
            assert not other.gets_in(buffer.next_batch)


def test_waits_give_it_up():
    with buffer_of(SHORT) as buffer, Bystander() as other:
        assert other.gets_in(lambda: wait_in_vain(buffer))


def wait_in_vain(buffer):
    with pytest.raises(TimeoutError):
        buffer.next_batch(timeout=0.5)


def test_a_run_of_examples_leaves_it_to_others():
    """An iterator written in C has no place of its own at which threads switch."""
    count = 1 << 20
    with (
        LoaderBuffer(
            echobuf.Field((), np.uint8), batch_size=1, window=count, factor=1
        ) as buffer,
        Bystander(interval=1e-4) as other,
    ):
        core = buffer.core
        other.note = lambda: buffer.stats().fresh
        run = itertools.repeat(np.uint8(1), count)
        other.gets_in(lambda: core.put_all(False, core.term(), run, count))
        assert other.noted < count
