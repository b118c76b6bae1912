"""A device that is lost, as after an illegal access: every call of the driver fails."""

import contextlib
import gc
import os

import numpy as np
import pytest

import echobuf
import fake_cuda
from helpers import KWARGS, WAIT_S, Worker, ids_of, make, stack, until
from helpers import expected_batches as expected
from test_cuda_cupy import host

ILLEGAL_ADDRESS = 700
MOST_QUEUED = 1024  # operations of a stream
OPERATIONS = ("cuLaunchKernel", "cuEventRecord", "cuStreamWaitEvent")
UPLOADS = ("cuMemcpyHtoDAsync_v2", "cuEventQuery", "cuEventSynchronize")
# Of the driver's error, where echobuf has called it, or CuPy.
SAYS = "(CUDA_ERROR_ILLEGAL_ADDRESS|error 700).*restart the process"


@contextlib.contextmanager
def lost():
    """Inside, the device is lost."""
    fake_cuda.lose(ILLEGAL_ADDRESS)
    yield
    gc.collect()  # nothing waits for a device that answers no more


def wait_for_uploads():
    """Return once the uploader has called the driver no more for a while."""
    before, looks = 0, 0
    while looks < 1000:
        calls = sum(map(fake_cuda.calls, UPLOADS))
        before, looks = calls, looks + 1 if calls == before else 0
        os.sched_yield()


def test_draws_and_puts_say_so_and_the_context_ends(cupy):
    with make(device="cuda") as buffer:
        buffer.put_batch(stack(range(12)))
        batch = host(buffer.next_batch(timeout=WAIT_S))
        assert ids_of(batch) == expected(KWARGS, 12)[0]
        with lost():
            for _ in range(2):
                with pytest.raises(echobuf.DeviceError, match=SAYS):
                    buffer.next_batch(timeout=WAIT_S)
            with pytest.raises(echobuf.DeviceError, match=SAYS):
                buffer.put_batch(stack(range(12, 100)), timeout=WAIT_S)
            assert buffer.stats().served == 4
            with pytest.raises(echobuf.DeviceError, match=SAYS):
                make(device="cuda")
    del buffer


@pytest.mark.parametrize("uploads", ["under way", "over"])
def test_a_put_that_waits_for_room_ends(cupy, uploads):
    with make(device="cuda") as buffer:
        waits = Worker(lambda: buffer.put_batch(stack(range(100)), timeout=WAIT_S))
        until(lambda: buffer.stats().fresh >= KWARGS["window"])
        if uploads == "over":  # then the uploader asks the driver for nothing
            wait_for_uploads()
        with lost():
            with pytest.raises(echobuf.DeviceError, match=SAYS):
                buffer.next_batch(timeout=WAIT_S)
            with pytest.raises(echobuf.DeviceError, match=SAYS):
                waits.result()


def test_a_loader_ends_with_the_error(cupy):
    examples = [np.full(3, number) for number in range(1000)]
    loader = echobuf.EchoLoader(
        examples, batch_size=4, window=16, factor=2, device="cuda"
    )
    batches = iter(loader)
    next(batches)
    with lost():
        with pytest.raises(echobuf.DeviceError, match=SAYS):
            list(batches)
        loader.close()


def test_replays_say_so(cupy):
    with make(device="cuda") as buffer:
        buffer.put_batch(stack(range(12)))
        stream = cupy.cuda.Stream(non_blocking=True)
        buffer.before_replay(stream=stream)
        with lost():
            for _ in range(2):
                with pytest.raises(echobuf.DeviceError, match=SAYS):
                    buffer.before_replay(stream=stream)


def test_a_draw_waits_for_room_in_the_queue_of_its_stream(cupy):
    """Without the GIL: what runs in the stream may want it."""
    stream = cupy.cuda.Stream(non_blocking=True)
    with make(device="cuda", factor="auto", max_factor=1000) as buffer:
        buffer.put_batch(stack(range(12)))
        draws = 1200  # of one operation each, most of them

        def draw():
            out = [buffer.next_batch(timeout=WAIT_S, stream=stream) for _ in range(2)]
            for _ in range(draws):
                buffer.next_batch(out[0], timeout=WAIT_S, stream=stream)
            return out

        with fake_cuda.held(stream):
            drawing = Worker(draw)
            until(lambda: sum(map(fake_cuda.calls, OPERATIONS)) > MOST_QUEUED)
            assert drawing.is_alive()
        out = drawing.result()
        assert buffer.stats().served == 4 * (draws + 2)
        with stream:
            batches = [ids_of(host(batch)) for batch in out]
    assert all(set(ids) <= set(range(12)) for ids in batches)
