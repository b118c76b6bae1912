"""Draws of whole batches with ragged leaves in graphs, on the simulated driver."""

import numpy as np
import pytest

import echobuf
from echobuf import Field
from echobuf.testing import simulated_cuda
from graphs import Graph
from helpers import WAIT_S, Worker
from ragged_graph_memory import SPEC, example, memory, plain

SIZE = 4
WHOLE = {name: Field((SIZE, *field.shape), field.dtype) for name, field in SPEC.items()}
KWARGS = {"unit": "batch", "window": 6, "factor": 2, "seed": 3, "payload_bytes": 3000}


def whole(number, size):
    examples = [example(SIZE * number + i) for i in range(size)]
    batch = {name: [each[name] for each in examples] for name in SPEC}
    return {**batch, "id": np.array(batch["id"])}


def feed(buffer, sizes):
    for number, size in enumerate(sizes):
        buffer.put(whole(number, size), timeout=WAIT_S)
    buffer.close()


@pytest.mark.parametrize("kernels", ["host", "ptx"])
@pytest.mark.parametrize("form", ["packed", "padded"])
def test_replays_serve_full_batches_and_eager_draws_the_shorter_ones(form, kernels):
    sizes = [SIZE - (number % 5 == 2) for number in range(20)]
    kwargs = {**KWARGS, "ragged": form}
    with echobuf.EchoBuffer(WHOLE, **kwargs) as buffer:
        worker = Worker(feed, buffer, sizes)
        wanted = [plain(batch, cut=True) for batch in buffer]
        worker.result()
    with simulated_cuda(1, kernels) as simulation:
        stream = simulation.stream()
        with echobuf.EchoBuffer(WHOLE, device="cuda", **kwargs) as buffer:
            rows = {"tokens": 50, "points": 50}
            out = memory(rows, {**kwargs, "batch_size": SIZE}, stream)
            graph = Graph(stream)
            with graph:
                assert buffer.next_batch(out=out, stream=stream) is out
            worker = Worker(feed, buffer, sizes)
            served, replayed = [], 0
            while True:
                try:
                    buffer.before_replay(stream=stream, timeout=WAIT_S)
                    graph.launch(stream)
                    batch, replayed = out, replayed + 1
                except StopIteration:  # a shorter one, or none
                    try:
                        batch = buffer.next_batch(stream=stream, timeout=WAIT_S)
                    except StopIteration:
                        break
                served.append(plain(batch, cut=True))
            worker.result()
            graph.close()
        del out, batch
    assert replayed == 2 * sizes.count(SIZE)
    assert len(served) == len(wanted)
    for one, other in zip(served, wanted, strict=True):
        for name, array in other.items():
            np.testing.assert_array_equal(one[name], array, name)
