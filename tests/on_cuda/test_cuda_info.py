"""Infos of batches in graphs and on streams, on the simulated driver."""

import contextlib
import itertools

import numpy as np
import pytest

import echobuf
from echobuf.testing import simulated_cuda
from helpers import WAIT_S, Worker
from ragged_graph_memory import SPEC as RAGGED
from ragged_graph_memory import example, memory
from schedule_reference import draw_infos
from test_cuda_graphs import Graph

SPEC = {"id": echobuf.Field((), np.int64), "row": echobuf.Field((5,), np.uint8)}
KWARGS = {"batch_size": 4, "window": 12, "factor": 2.5, "seed": 7}
N = 45


@pytest.fixture(
    params=[(1, "host"), (2, "host"), (1, "ptx")], ids=lambda of: f"{of[1]}-{of[0]}"
)
def simulation(request):
    with simulated_cuda(*request.param) as on:
        yield on


def put(buffer):
    ids = np.arange(N)
    rows = (ids[:, None] + np.arange(5)).astype(np.uint8)
    batch = {"id": ids, "row": rows}
    buffer.put_batch(batch, timeout=WAIT_S, version=ids + 3)
    buffer.close()


def put_ragged(buffer):
    for number in range(N):
        buffer.put(example(number), timeout=WAIT_S, version=number + 3)
    buffer.close()


def infos_of(batch, info):
    assert type(info) is echobuf.BatchInfo
    assert (np.array(info.index) == np.array(batch["id"])).all()
    assert (np.array(info.version) == np.array(batch["id"]) + 3).all()
    return list(zip(info.index.tolist(), info.echo.tolist(), strict=True))


def replayed(buffer, produce, out, stream):
    """The infos of all batches: of replays and, in every third turn, of a draw."""
    graph = Graph(stream)
    with graph:
        assert buffer.next_batch(out=out, stream=stream) is out
    worker = Worker(produce, buffer)
    infos = []
    with contextlib.suppress(StopIteration):
        for turn in itertools.count():
            if turn % 3 == 2:
                drawn = buffer.next_batch(timeout=WAIT_S, stream=stream)
                infos += infos_of(*drawn)
                continue
            buffer.before_replay(stream=stream, timeout=WAIT_S)
            graph.launch(stream)
            infos += infos_of(*out)
    infos += itertools.chain(*(infos_of(*batch) for batch in buffer))
    worker.result()
    graph.close()
    return infos


def on_cpu(spec, kwargs, produce):
    with echobuf.EchoBuffer(spec, **kwargs, with_info=True) as buffer:
        worker = Worker(produce, buffer)
        infos = list(itertools.chain(*(infos_of(*batch) for batch in buffer)))
        worker.result()
    assert infos == draw_infos(index for index, _ in infos)
    return infos


def test_replays_tell_the_uses_that_they_serve(simulation):
    stream = simulation.stream()
    kwargs = {**KWARGS, "with_info": True}
    with echobuf.EchoBuffer(SPEC, device="cuda", **kwargs) as buffer:
        buffer.put_batch({"id": np.arange(12), "row": np.zeros((12, 5), np.uint8)})
        out = buffer.next_batch(stream=stream)  # arrays that stay where they are
        buffer.reset(0)
        infos = replayed(buffer, put, out, stream)
    del out
    assert infos == on_cpu(SPEC, KWARGS, put)


@pytest.mark.parametrize("form", ["packed", "padded"])
def test_replays_of_ragged_leaves_do_too(simulation, form):
    stream = simulation.stream()
    kwargs = {"window": 12, "factor": 3, "seed": 7, "payload_bytes": 1500}
    kwargs |= {"batch_size": 4, "ragged": form}
    of_device = {**kwargs, "with_info": True, "device": "cuda"}
    with echobuf.EchoBuffer(RAGGED, **of_device) as buffer:
        batch = memory({"tokens": 60, "points": 60}, kwargs, stream)
        with echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS, with_info=True) as one:
            one.put_batch({"id": np.arange(12), "row": np.zeros((12, 5), np.uint8)})
            _, info = one.next_batch(stream=stream)
        infos = replayed(buffer, put_ragged, (batch, info), stream)
    del batch, info
    assert infos == on_cpu(RAGGED, kwargs, put_ragged)


def test_a_batch_that_a_wait_has_cut_keeps_its_infos(simulation):
    kwargs = {"factor": "auto", "window": 16, "batch_size": 10, "max_factor": 3}
    served, put_so_far = [], 0
    with echobuf.EchoBuffer(SPEC, device="cuda", **kwargs, with_info=True) as buffer:
        for number in (4, 3, 9, 2, 11, 5):
            ids = np.arange(put_so_far, put_so_far + number)
            rows = np.zeros((number, 5), np.uint8)
            put_so_far += number
            buffer.put_batch({"id": ids, "row": rows}, version=ids + 3)
            for _ in range(6):
                try:
                    served += infos_of(*buffer.next_batch(timeout=0))
                except TimeoutError:
                    break
        buffer.close()
        served += itertools.chain(*(infos_of(*batch) for batch in buffer))
    assert served == draw_infos(index for index, _ in served)
    assert {index for index, _ in served} == set(range(put_so_far))


def test_a_replay_without_a_batch_leaves_the_info_as_it_is(simulation):
    stream = simulation.stream()
    kwargs = {**KWARGS, "with_info": True}
    with echobuf.EchoBuffer(SPEC, device="cuda", **kwargs) as buffer:
        buffer.put_batch({"id": np.arange(12), "row": np.zeros((12, 5), np.uint8)})
        out = buffer.next_batch(stream=stream)
        graph = Graph(stream)
        with graph:
            buffer.next_batch(out=out, stream=stream)
        buffer.before_replay(stream=stream, timeout=WAIT_S)
        graph.launch(stream)
        before = [np.array(leaf) for leaf in (out[0]["id"], *out[1])]
        other = buffer.next_batch(timeout=WAIT_S, stream=stream)
        assert other[1].index.tolist() != before[0].tolist()
        graph.launch(stream)
        for leaf, was in zip((out[0]["id"], *out[1]), before, strict=True):
            np.testing.assert_array_equal(leaf, was)
        graph.close()
    del out, other
