"""Graphs of batches where records expire, on the simulated driver."""

import contextlib
import itertools

import numpy as np
import pytest

import echobuf
from graphs import Graph
from helpers import WAIT_S
from ragged_graph_memory import SPEC as RAGGED
from ragged_graph_memory import example, memory

SPEC = {"id": echobuf.Field((), np.int64), "row": echobuf.Field((5,), np.uint8)}
KWARGS = {"batch_size": 4, "window": 16, "factor": 3, "seed": 7, "with_info": True}
CASES = {
    "plain": {"max_staleness": 4},
    "fraction": {"max_staleness": 3, "factor": 2.5},
}
N = 70


def put(buffer, first, end):
    ids = np.arange(first, end)
    rows = (ids[:, None] + np.arange(5)).astype(np.uint8)
    batch = {"id": ids, "row": rows}
    buffer.put_batch(batch, timeout=WAIT_S, version=ids // 3)


def put_ragged(buffer, first, end):
    for number in range(first, end):
        buffer.put(example(number), timeout=WAIT_S, version=number // 3)


def drawn(batch, info):
    """A batch's infos."""
    index = np.array(info.index)
    np.testing.assert_array_equal(np.array(batch["id"]), index)
    if "row" in batch:
        row = (index[:, None] + np.arange(5)).astype(np.uint8)
        np.testing.assert_array_equal(np.array(batch["row"]), row)
    return [np.array(leaf).tolist() for leaf in info]


class Served:
    """Batches of turns of puts and draws.

    Args:
        next_batch: draws one with no wait, or raises TimeoutError or StopIteration.
    """

    def __init__(self, buffer, produce, next_batch):
        self.batches = []
        first = 0
        for number in itertools.cycle([3, 1, 5, 4, 2]):
            end = min(N, first + number)
            produce(buffer, first, end)
            if (first := end) == N:
                break
            with contextlib.suppress(TimeoutError):
                for _ in range(5):
                    self.batches.append(drawn(*next_batch(0)))
        buffer.close()
        with contextlib.suppress(StopIteration):
            while True:
                self.batches.append(drawn(*next_batch(WAIT_S)))


def replays(buffer, graph, out, stream):
    """Draws that are replays of a graph and, in every third turn, plain ones."""
    turn = itertools.count()

    def next_batch(timeout):
        if next(turn) % 3 < 2:
            with contextlib.suppress(StopIteration):
                buffer.before_replay(stream=stream, timeout=timeout)
                graph.launch(stream)
                return out
        return buffer.next_batch(stream=stream, timeout=timeout)

    return next_batch


def on_cpu(spec, kwargs, produce):
    with echobuf.EchoBuffer(spec, **kwargs) as buffer:

        def next_batch(timeout):
            return buffer.next_batch(timeout=timeout)

        return Served(buffer, produce, next_batch).batches


@pytest.mark.parametrize("case", CASES)
def test_replays_are_the_draws_of_the_cpu(simulation, case):
    stream = simulation.stream()
    kwargs = KWARGS | CASES[case]
    with echobuf.EchoBuffer(SPEC, device="cuda", **kwargs) as buffer:
        put(buffer, 0, 16)
        out = buffer.next_batch(stream=stream)  # arrays that stay where they are
        buffer.reset(0)
        graph = Graph(stream)
        with graph:
            assert buffer.next_batch(out=out, stream=stream) is out
        next_batch = replays(buffer, graph, out, stream)
        batches = Served(buffer, put, next_batch).batches
        graph.close()
    del out, next_batch
    assert batches == on_cpu(SPEC, kwargs, put)
    assert sum(len(index) for index, *_ in batches) < N * kwargs["factor"]


@pytest.mark.parametrize("form", ["packed", "padded"])
@pytest.mark.parametrize("case", CASES)
def test_replays_of_ragged_leaves_are_too(simulation, case, form):
    stream = simulation.stream()
    kwargs = KWARGS | CASES[case] | {"payload_bytes": 1500, "ragged": form}
    with echobuf.EchoBuffer(RAGGED, device="cuda", **kwargs) as buffer:
        batch = memory({"tokens": 60, "points": 60}, kwargs, stream)
        with echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as one:
            put(one, 0, 16)
            _, info = one.next_batch(stream=stream)
        graph = Graph(stream)
        with graph:
            buffer.next_batch(out=(batch, info), stream=stream)
        next_batch = replays(buffer, graph, (batch, info), stream)
        batches = Served(buffer, put_ragged, next_batch).batches
        graph.close()
    del batch, info, next_batch
    assert batches == on_cpu(RAGGED, kwargs, put_ragged)
