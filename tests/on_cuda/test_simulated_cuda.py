"""The ends of a simulated driver, and what is given to buffers on one."""

import itertools
import os
import sys
import threading

import numpy as np
import pytest

import echobuf
from echobuf.testing import simulated_cuda
from helpers import WAIT_S, Worker, ids_of, make, stack


def test_a_replay_that_was_planned_may_be_left_at_the_end():
    with simulated_cuda(1) as simulation:
        buffer = make(device="cuda")
        buffer.put_batch(stack(range(12)))
        buffer.before_replay(stream=simulation.stream())


@pytest.mark.parametrize("seed", range(20))
def test_draws_on_a_stream_may_be_in_flight_at_the_end(seed):
    def draw(buffer, stream):
        while True:
            buffer.next_batch(stream=stream)

    def put(buffer):
        while True:
            buffer.put_batch(stack(range(8)))

    with simulated_cuda(seed) as simulation:
        buffer = make(device="cuda")
        workers = [Worker(put, buffer), Worker(draw, buffer, simulation.stream())]
        buffer.next_batch()
    for worker in workers:
        with pytest.raises(echobuf.DeviceError, match="has ended"):
            worker.result()


def test_a_loader_may_be_in_its_loop_at_the_end(monkeypatch):
    unhandled = []
    monkeypatch.setattr(threading, "excepthook", unhandled.append)
    with simulated_cuda(1):
        examples = (np.full(3, number) for number in itertools.count())
        loader = echobuf.EchoLoader(examples, batch_size=4, window=8, device="cuda")
        batches = iter(loader)
        next(batches)
        feeder = next(t for t in threading.enumerate() if t.name == "echobuf-feeder")
    with pytest.raises(echobuf.DeviceError, match="has ended"):
        next(batches)
    loader.close()
    feeder.join(WAIT_S)
    assert not feeder.is_alive()
    assert not unhandled


def test_out_on_another_device_is_refused():
    with simulated_cuda(1):
        one, other = make(device="cuda:0"), make(device="cuda:1")
        one.put_batch(stack(range(12)))
        other.put_batch(stack(range(12)))
        with pytest.raises(echobuf.SpecError, match="on cuda:0"):
            other.next_batch(out=one.next_batch())


def test_a_batch_of_a_driver_that_has_ended_is_memory_of_the_host():
    with simulated_cuda(1):
        buffer = make(device="cuda")
        buffer.put_batch(stack(range(12)))
        batch = buffer.next_batch()
    with simulated_cuda(2):
        buffer = make(device="cuda")
        buffer.put_batch(stack(range(12)))
        buffer.next_batch()
        expected = make(device="cuda")
        expected.put_batch(stack(range(12)))
        expected.next_batch()
        assert buffer.next_batch(out=batch) is batch
        assert ids_of(batch) == ids_of(expected.next_batch())


def test_a_forked_child_may_leave_the_context():
    child = 0
    try:
        with simulated_cuda(1):
            buffer = make(device="cuda")
            child = os.fork()
            if not child:
                sys.exit(0)
            buffer.put_batch(stack(range(12)))
            assert len(buffer.next_batch()["id"]) == 4
    except BaseException as error:
        if not child:
            os._exit(0 if isinstance(error, SystemExit) else 1)
        raise
    assert os.waitpid(child, 0)[1] == 0
