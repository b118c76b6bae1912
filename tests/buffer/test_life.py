"""From open to closed: ends, timeouts, failures, another epoch, several threads."""

import gc
import weakref

import numpy as np
import pytest

import echobuf
from helpers import (
    KWARGS,
    WAIT_S,
    Worker,
    drain,
    example,
    expected_batches,
    feed,
    ids_of,
    make,
    on_device,
    put_all,
    put_what_fits,
    stack,
    until,
)

pytestmark = pytest.mark.contract

# ---- ends


def test_close_twice_and_after_the_context_is_fine():
    with make() as buffer:
        buffer.put_batch(stack(range(8)))
        buffer.close()
        buffer.close()
        assert list(drain(buffer)) == expected_batches(KWARGS, 8)
        buffer.close()
    buffer.close()
    buffer.__exit__(None, None, None)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_everything_served_is_stop_iteration_again_and_again(prefetch):
    with make(prefetch=prefetch) as buffer:
        buffer.close()
        for _ in range(3):
            until(buffer.ready)
            with pytest.raises(StopIteration):
                buffer.next_batch()
        assert list(buffer) == []


def test_a_put_after_close_is_a_closed_error():
    with make() as buffer:
        buffer.close()
        for put in (
            lambda: buffer.put(example(0)),
            lambda: buffer.put_batch(stack(range(3))),
            lambda: buffer.put_batch(stack([])),
        ):
            with pytest.raises(echobuf.ClosedError, match="closed") as caught:
                put()
            assert caught.value.accepted == 0
        assert buffer.stats().fresh == 0


CALLS = {
    "put": lambda b: b.put(example(0)),
    "put_batch": lambda b: b.put_batch(stack([])),
    "put_wrong": lambda b: b.put("no example"),
    "next_batch": lambda b: b.next_batch(),
    "next_batch_out": lambda b: b.next_batch(out=stack(range(4))),
    "next_batch_wrong": lambda b: b.next_batch(out=3),
    "next": next,
    "list": list,
    "ready": lambda b: b.ready(),
    "reset": lambda b: b.reset(),
    "fail": lambda b: b.fail(ValueError()),
    "stats": lambda b: b.stats(),
    "state_dict": lambda b: b.state_dict(),
    "enter": lambda b: b.__enter__(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("prefetch", [0, 2])
def test_anything_after_the_context_is_a_closed_error(call, prefetch):
    with make(prefetch=prefetch) as buffer:
        state = buffer.state_dict()
        buffer.put_batch(stack(range(9)))
    with pytest.raises(echobuf.ClosedError):
        CALLS[call](buffer)
    with pytest.raises(echobuf.ClosedError):
        buffer.load_state_dict(state)
    assert "EchoBuffer" in repr(buffer)


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("factor", [2, 2.5, "auto"])
def test_leaving_the_context_lets_waiting_threads_go(factor, prefetch):
    with make(factor=factor, prefetch=prefetch) as buffer, make() as empty:
        producers = [Worker(put_all, buffer, range(500), [5, 0]) for _ in range(3)]
        consumers = [Worker(empty.next_batch) for _ in range(3)]
        until(lambda: buffer.stats().put_wait_s > 0)
    for worker in producers + consumers:
        with pytest.raises(echobuf.ClosedError):
            worker.result()


@pytest.mark.parametrize("rows", [1, 4000])  # with the GIL kept, and released
def test_leaving_the_context_in_the_middle_of_calls_is_safe(rows):
    field = echobuf.Field((rows,), np.float64)
    for _ in range(40):
        with echobuf.EchoBuffer(field, batch_size=32, window=64) as buffer:
            batch = np.zeros((64, rows))

            def use(call, *args):
                while True:
                    call(*args)

            calls = [(buffer.put_batch, batch), (buffer.next_batch,)]
            workers = [Worker(use, *call) for call in 2 * calls]
            until(lambda buffer=buffer: buffer.stats().served > 64)
        for worker in workers:
            with pytest.raises(echobuf.ClosedError):
                worker.result()


def test_a_buffer_without_a_context_goes_with_its_last_reference():
    buffer = make(prefetch=2)
    buffer.put_batch(stack(range(9)))
    batch = buffer.next_batch(timeout=WAIT_S)
    gone = weakref.ref(buffer)
    del buffer
    gc.collect()
    assert gone() is None
    ids_of(batch)


# ---- timeouts


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_a_put_that_times_out_says_how_much_was_put(timeout):
    with make(factor=3) as buffer:
        capacity = 12 + 4 + (4 if on_device() else 0)  # and staging
        with pytest.raises(TimeoutError) as caught:
            buffer.put_batch(stack(range(40)), timeout=timeout)
        assert caught.value.accepted == buffer.stats().fresh == capacity
        with pytest.raises(TimeoutError) as caught:
            buffer.put(example(0), timeout=timeout)
        assert caught.value.accepted == 0
        rest = Worker(feed, buffer, range(capacity, 40), [7])
        assert list(drain(buffer)) == expected_batches({**KWARGS, "factor": 3}, 40)
        rest.result()


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("out", [None, stack(range(4))])
@pytest.mark.parametrize("timeout", [0, 0.01])
def test_a_draw_that_times_out_loses_nothing(timeout, out, prefetch):
    with make(prefetch=prefetch) as buffer:
        buffer.put_batch(stack(range(3)))
        with pytest.raises(TimeoutError):
            buffer.next_batch(out=out, timeout=timeout)
        assert not buffer.ready()
        buffer.put_batch(stack(range(3, 9)))
        buffer.close()
        assert list(drain(buffer)) == expected_batches(KWARGS, 9)


def test_a_put_cut_short_by_close_says_how_much_was_put():
    with make() as buffer:
        producer = Worker(buffer.put_batch, stack(range(100)))
        until(lambda: buffer.stats().put_wait_s > 0 or buffer.stats().resident >= 18)
        buffer.close()
        with pytest.raises(echobuf.ClosedError) as caught:
            producer.result()
        accepted = caught.value.accepted
        assert accepted == buffer.stats().fresh
        assert 0 < accepted < 100
        assert list(drain(buffer)) == expected_batches(KWARGS, accepted)


# ---- failures


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("n", [0, 3, 12])
def test_a_failure_reaches_the_next_draw(n, prefetch):
    cause = OSError("the disk is gone")
    with make(prefetch=prefetch) as buffer:
        assert put_what_fits(buffer, range(n)) == n
        buffer.fail(cause)
        assert buffer.ready()
        for _ in range(2):
            with pytest.raises(echobuf.UpstreamError, match="the disk is gone") as got:
                buffer.next_batch(timeout=WAIT_S)
            assert got.value.__cause__ is cause
        with pytest.raises(echobuf.ClosedError, match="`fail`"):
            buffer.put(example(0))
        buffer.reset(0)
        buffer.put_batch(stack(range(9)))
        buffer.close()
        assert list(drain(buffer)) == expected_batches(KWARGS, 9)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_failure_wakes_everybody(prefetch):
    with make(prefetch=prefetch) as buffer:
        consumers = [Worker(buffer.next_batch) for _ in range(3)]
        buffer.fail(KeyError("image"))
        for consumer in consumers:
            with pytest.raises(echobuf.UpstreamError, match="image"):
                consumer.result()
        buffer.reset()
        producer = Worker(buffer.put_batch, stack(range(100)))
        until(lambda: buffer.stats().put_wait_s > 0)
        buffer.fail(KeyError("label"))
        with pytest.raises(echobuf.ClosedError, match="`fail`") as caught:
            producer.result()
        assert caught.value.accepted == buffer.stats().fresh
