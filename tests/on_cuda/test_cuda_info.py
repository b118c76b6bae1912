"""Infos of batches in graphs and on streams, on the simulated driver."""

import itertools

import numpy as np
import pytest

import echobuf
from graphs import Graph, draws
from helpers import WAIT_S, Worker
from ragged_graph_memory import SPEC as RAGGED
from ragged_graph_memory import example, memory
from schedule_reference import draw_infos

SPEC = {"id": echobuf.Field((), np.int64), "row": echobuf.Field((5,), np.uint8)}
KWARGS = {"batch_size": 4, "window": 12, "factor": 2.5, "seed": 7}
N = 45


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
        worker = Worker(put, buffer)
        infos = draws(buffer, out, [stream], lambda drawn: infos_of(*drawn), 3)
        worker.result()
    del out
    assert list(itertools.chain(*infos)) == on_cpu(SPEC, KWARGS, put)


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
        worker = Worker(put_ragged, buffer)
        out = batch, info
        infos = draws(buffer, out, [stream], lambda drawn: infos_of(*drawn), 3)
        worker.result()
    del batch, info, out
    assert list(itertools.chain(*infos)) == on_cpu(RAGGED, kwargs, put_ragged)


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
