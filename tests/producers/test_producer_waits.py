"""Puts of device leaves that wait for room, and what ends the wait."""

import contextlib
import functools
import gc
import os
import signal
import threading

import numpy as np
import pytest
from device_examples import Capsule, counted, on_device, rows

import echobuf
import fake_cuda
from echobuf.cuda.simulated_driver import driver
from echobuf.testing import simulated_cuda
from helpers import WAIT_S, Worker, drain, example, ids_of, make, stack, until

FULL = 1000


@pytest.fixture
def on():
    with simulated_cuda(4) as simulation:
        yield simulation


def put_until_full(buffer, simulation, first=0):
    """Puts one by one without waiting; returns how many there was room for."""
    for number in range(first, FULL):
        one = on_device(simulation, example(number))
        try:
            buffer.put(one, timeout=0)
        except TimeoutError:
            return number
    raise AssertionError


def until_it_waits(buffer, before_s):
    """Returns once a put has waited for longer than all puts had before it."""
    until(lambda: buffer.stats().put_wait_s > before_s + 0.01)


def waiting(buffer, simulation, kind, first):
    """Return a put of one example, or of nine, which there is no room for."""
    if kind == "put":
        return functools.partial(buffer.put, on_device(simulation, example(first)))
    batch = on_device(simulation, stack(range(first, first + 9)))
    return functools.partial(buffer.put_batch, batch)


def served(buffer):
    return sorted(number for batch in drain(buffer) for number in batch)


def test_a_put_that_times_out_has_put_nothing(on):
    with make(device="cuda") as buffer:
        n = put_until_full(buffer, on)
        assert n >= 12  # the window
        one = on_device(on, example(n))
        with pytest.raises(TimeoutError) as caught:
            buffer.put(one, timeout=0.02)
        assert getattr(caught.value, "accepted", 0) == 0
        assert buffer.stats().fresh == n
        buffer.close()
        assert served(buffer) == sorted([*range(n)] * 2)


def test_a_put_without_room_launches_nothing(on):
    with make(device="cuda") as buffer:
        n = put_until_full(buffer, on)
        one, many = on_device(on, example(n)), on_device(on, stack(range(n, n + 9)))
        with counted() as calls:
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    buffer.put(one, timeout=0)
                with pytest.raises(TimeoutError):
                    buffer.put_batch(many, timeout=0)
        assert "cuLaunchKernel" not in calls
        assert buffer.stats().put_wait_s >= 0


def test_a_batch_that_times_out_has_put_its_first_examples(on):
    with make(device="cuda") as buffer:
        batch = stack(range(40))
        done = 0
        served = []
        while done < 40:
            part = on_device(on, rows(batch, slice(done, None)))
            try:
                buffer.put_batch(part, timeout=0.005)
                done = 40
            except TimeoutError as error:
                done += error.accepted
            assert buffer.stats().fresh == done
            with contextlib.suppress(TimeoutError):
                served += ids_of(buffer.next_batch(timeout=0))
        buffer.close()
        served += [number for ids in drain(buffer) for number in ids]
    assert sorted(served) == sorted([*range(40)] * 2)


def test_an_array_may_be_overwritten_after_a_put_that_was_cut_short(on):
    """What was accepted of it has its place in the order of the stream."""
    with make(device="cuda", factor=1) as buffer:
        batch = on_device(on, stack(range(100)))
        with pytest.raises(TimeoutError) as caught:
            buffer.put_batch(batch, timeout=0)
        batch["id"].copy_from(-1)
        for leaf in batch["body"]:
            leaf.copy_from(0)
            leaf.free()
        buffer.close()
        assert served(buffer) == list(range(caught.value.accepted))


def test_a_waiting_put_goes_on_when_there_is_room(on):
    with make(device="cuda") as buffer:
        n = put_until_full(buffer, on)
        waited_s = buffer.stats().put_wait_s

        def put():
            buffer.put(on_device(on, example(n)))
            buffer.put_batch(on_device(on, stack(range(n + 1, n + 50))))
            buffer.close()

        worker = Worker(put)
        until_it_waits(buffer, waited_s)
        assert served(buffer) == sorted([*range(n + 50)] * 2)
        worker.result()


@pytest.mark.parametrize("kind", ["put", "put_batch"])
def test_close_ends_a_waiting_put(on, kind):
    with make(device="cuda", factor=1) as buffer:
        n = put_until_full(buffer, on)
        waited_s = buffer.stats().put_wait_s
        worker = Worker(waiting(buffer, on, kind, n))
        until_it_waits(buffer, waited_s)
        buffer.close()
        with pytest.raises(echobuf.ClosedError) as caught:
            worker.result()
        accepted = getattr(caught.value, "accepted", 0)
        assert served(buffer) == list(range(n + accepted))


@pytest.mark.parametrize("kind", ["put", "put_batch"])
def test_failing_ends_a_waiting_put(on, kind):
    with make(device="cuda", factor=1) as buffer:
        n = put_until_full(buffer, on)
        waited_s = buffer.stats().put_wait_s
        worker = Worker(waiting(buffer, on, kind, n))
        until_it_waits(buffer, waited_s)
        buffer.fail(ValueError("upstream"))
        with pytest.raises(echobuf.EchobufError):
            worker.result()
        with pytest.raises(echobuf.UpstreamError):
            buffer.next_batch(timeout=WAIT_S)


@pytest.mark.parametrize("kind", ["put", "put_batch"])
def test_leaving_the_context_ends_a_waiting_put(on, kind):
    with make(device="cuda") as buffer:
        n = put_until_full(buffer, on)
        waited_s = buffer.stats().put_wait_s
        worker = Worker(waiting(buffer, on, kind, n))
        until_it_waits(buffer, waited_s)
    with pytest.raises(echobuf.ClosedError):
        worker.result()


def test_the_end_of_the_simulation_ends_a_waiting_put():
    with simulated_cuda(1) as simulation:
        buffer = make(device="cuda")
        n = put_until_full(buffer, simulation)
        one = on_device(simulation, example(n))
        waited_s = buffer.stats().put_wait_s
        worker = Worker(lambda: buffer.put(one))
        until_it_waits(buffer, waited_s)
    with pytest.raises((echobuf.DeviceError, echobuf.ClosedError)):
        worker.result()


@contextlib.contextmanager
def interrupting(buffer):
    """Inside, a signal raises KeyboardInterrupt once a put waits."""

    def interrupt(*_):
        raise KeyboardInterrupt

    waited_s = buffer.stats().put_wait_s

    def send():
        until_it_waits(buffer, waited_s)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        thread.join(WAIT_S)
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("kind", ["put", "put_batch"])
def test_ctrl_c_ends_a_waiting_put(on, kind):
    with make(device="cuda", factor=1) as buffer:
        n = put_until_full(buffer, on)
        put = waiting(buffer, on, kind, n)
        with interrupting(buffer), pytest.raises(KeyboardInterrupt) as caught:
            put()
        n += getattr(caught.value, "accepted", 0)
        assert buffer.stats().fresh == n
        rest = Worker(put_rest, buffer, on, n)
        assert served(buffer) == list(range(n + 30))
        rest.result()


def test_what_was_put_before_ctrl_c_is_kept_until_it_was_read(on):
    """Its allocator gives the memory out again in the order of another stream."""
    owner, stream = on.stream(), on.stream()
    values = np.arange(FULL, dtype=np.float32)
    field = echobuf.Field((), np.float32)
    buffer = echobuf.EchoBuffer(field, batch_size=2, window=4, factor=1, device="cuda")
    with buffer:
        with owner:
            leaf = Capsule(on.array(values))
        driver().join(0, stream.ptr, owner.ptr)
        with fake_cuda.held(stream):
            accepted = 0
            with interrupting(buffer):
                try:
                    buffer.put_batch(leaf, stream=stream)
                except KeyboardInterrupt as error:
                    accepted = error.accepted
            assert accepted >= 4
            del leaf
            gc.collect()
        buffer.close()
        rows_served = [float(x) for batch in buffer for x in batch]
    assert sorted(rows_served) == values[:accepted].tolist()


def put_rest(buffer, simulation, first):
    buffer.put_batch(
        on_device(simulation, stack(np.arange(first, first + 30))), timeout=WAIT_S
    )
    buffer.close()
