"""Ends of calls: a context that was left, failures beside resets, no time."""

import contextlib
import copy
import pickle
import sys
import threading
import time

import numpy as np
import pytest

import echobuf
from echobuf.loader_buffer import LoaderBuffer
from helpers import (
    KWARGS,
    WAIT_S,
    Worker,
    example,
    expected_batches,
    ids_of,
    make,
    put_what_fits,
    stack,
    until,
)

pytestmark = pytest.mark.contract

# ---- after the context


@pytest.mark.parametrize(
    "call",
    [
        lambda b: b.put(example(1)),
        lambda b: b.put(example(1), timeout=-1),
        lambda b: b.put_batch(stack(range(2))),
        lambda b: b.next_batch(),
        lambda b: b.next_batch(timeout=-1),
        lambda b: b.fail("no exception"),
        lambda b: b.load_state_dict({}),
        lambda b: b.state_dict(),
        lambda b: b.stats(),
        lambda b: b.reset(),
        iter,
    ],
)
def test_after_the_context_every_call_says_that_it_was_left(call):
    with make() as buffer:
        buffer.put_batch(stack(range(5)))
    with pytest.raises(echobuf.ClosedError, match="context of this buffer was left"):
        call(buffer)


def test_a_put_that_waits_while_the_context_is_left_says_so():
    buffer = make()
    with buffer:
        put_what_fits(buffer, range(100))
        worker = Worker(lambda: buffer.put(example(100)))
        until(lambda: buffer.stats().put_wait_s > 0)
    with pytest.raises(echobuf.ClosedError, match="context of this buffer was left"):
        worker.result()


def test_a_buffer_is_not_copied():
    with make() as buffer:
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="EchoBuffer cannot be copied"):
                attempt(buffer)


# ---- failures and resets from several threads


@pytest.fixture
def switching():
    """Threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("switching")
def test_every_upstream_error_has_its_cause():
    causes = []
    with make() as buffer:

        def draw():
            while len(causes) < 10_000:
                try:
                    buffer.next_batch(timeout=0)
                except echobuf.UpstreamError as error:
                    causes.append(error.__cause__)
                except (TimeoutError, StopIteration):
                    pass

        def reset():
            while drawer.is_alive():
                buffer.reset()

        drawer = Worker(draw)
        resetters = [Worker(reset), Worker(reset)]
        while drawer.is_alive():
            buffer.fail(ValueError("upstream"))
        for worker in (drawer, *resetters):
            worker.result()
    assert all(isinstance(cause, ValueError) for cause in causes)


# ---- no time, and all that is needed is there


@pytest.mark.parametrize("prefetch", [1, 3])
def test_what_is_there_comes_without_waiting_with_prefetch_too(prefetch):
    for _ in range(100):
        with make(prefetch=prefetch) as buffer:
            buffer.put_batch(stack(range(9)))
            buffer.close()
            expected = expected_batches(KWARGS, 9)
            for ids in expected:
                assert buffer.ready()
                assert ids_of(buffer.next_batch(timeout=0)) == ids
            assert buffer.ready()
            with pytest.raises(StopIteration):
                buffer.next_batch(timeout=0)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_no_time_is_a_timeout_while_upstream_is_behind(prefetch):
    with make(prefetch=prefetch) as buffer:
        buffer.put_batch(stack(range(5)))
        assert not buffer.ready()
        with pytest.raises(TimeoutError):
            buffer.next_batch(timeout=0)


def test_an_epoch_that_was_ended_without_an_error_says_so():
    """As a loader's is, whose workers end with the interpreter."""
    with make(kind=LoaderBuffer) as buffer:
        worker = Worker(buffer.next_batch)
        until(lambda: buffer.stats().next_wait_s > 0)
        buffer.abandon(buffer.term())
        with pytest.raises(echobuf.ClosedError, match="epoch was ended"):
            worker.result()


@pytest.mark.host
def test_giving_up_an_epoch_while_another_thread_resets_and_a_third_draws():
    """A draw looks for signals, which takes the GIL, now and then."""
    n = 1_500_000
    spec = echobuf.Field((16,), np.float32)
    with LoaderBuffer(spec, batch_size=n, window=n, factor=2) as buffer:
        buffer.put_batch(np.zeros((n, 16), np.float32))
        buffer.close()
        out = np.zeros((n, 16), np.float32)
        buffer.next_batch(out=out)
        term = buffer.term()
        drawing = threading.Barrier(3)

        def after(seconds, call, *args):
            drawing.wait(WAIT_S)
            time.sleep(seconds)  # somewhere in the draw; anywhere will do
            call(*args)

        others = [
            threading.Thread(target=after, args=(0.03, buffer.reset, 1)),
            threading.Thread(target=after, args=(0.04, buffer.abandon, term)),
        ]
        for each in others:
            each.start()
        drawing.wait(WAIT_S)
        with contextlib.suppress(echobuf.EchobufError, TimeoutError, StopIteration):
            buffer.next_batch(out=out, timeout=1.0)
        for each in others:
            each.join(WAIT_S)
            assert not each.is_alive()
