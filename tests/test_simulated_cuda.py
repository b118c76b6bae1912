"""The ends of a simulated driver, and what is given to buffers on one."""

import os
import sys

import pytest

import echobuf
from echobuf.testing import simulated_cuda
from helpers import Worker, make, stack


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
