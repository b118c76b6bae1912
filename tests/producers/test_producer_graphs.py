"""Graphs of draws whose records come from device puts."""

import numpy as np
import pytest
from device_examples import on_device

import echobuf
from echobuf.testing import simulated_cuda
from graphs import draws
from helpers import WAIT_S, Worker

SPEC = {"id": echobuf.Field((), np.int64), "row": echobuf.Field((5,), np.uint8)}
KWARGS = {"batch_size": 4, "window": 12, "factor": 3, "seed": 7}


def stack(ids):
    ids = np.asarray(ids)
    return {"id": ids, "row": (ids[:, None] + np.arange(5)).astype(np.uint8)}


def ids_of(batch):
    assert (batch["row"] == stack(batch["id"])["row"]).all()
    return batch["id"].tolist()


def put(buffer, n, move):
    for first in range(0, n, 7):
        ids = range(first, min(first + 7, n))
        buffer.put_batch(move(stack(ids)), timeout=WAIT_S)
    buffer.close()


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("n", [64, 61])
@pytest.mark.parametrize("eager", [0, 3])
def test_replays_serve_what_was_put_on_the_device(seed, n, eager):
    with echobuf.EchoBuffer(SPEC, **KWARGS) as host:
        worker = Worker(put, host, n, lambda tree: tree)
        expected = [ids_of(batch) for batch in host]
        worker.result()
    with simulated_cuda(seed) as simulation:
        streams = [simulation.stream(), simulation.stream()]

        def move(tree):
            return on_device(simulation, tree)

        with echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as buffer:
            buffer.put_batch(move(stack(range(12))))
            out = buffer.next_batch(stream=streams[0])
            buffer.reset(0)
            worker = Worker(put, buffer, n, move)
            assert draws(buffer, out, streams, ids_of, eager) == expected
            worker.result()
        del out
