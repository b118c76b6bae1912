"""Draws in graphs from Python, on the simulated driver."""

import numpy as np
import pytest

import echobuf
from echobuf import transforms as t
from graphs import Graph, draws
from helpers import WAIT_S, Worker

SPEC = {"id": echobuf.Field((), np.int64), "row": echobuf.Field((5,), np.uint8)}
KWARGS = {"batch_size": 4, "window": 12, "factor": 3, "seed": 7}


def stack(ids):
    ids = np.asarray(ids)
    return {"id": ids, "row": (ids[:, None] + np.arange(5)).astype(np.uint8)}


def expected(n):
    with echobuf.EchoBuffer(SPEC, **KWARGS) as buffer:
        worker = Worker(put, buffer, n)
        batches = [batch["id"].tolist() for batch in buffer]
        worker.result()
    return batches


def put(buffer, n):
    buffer.put_batch(stack(range(n)), timeout=WAIT_S)
    buffer.close()


def fixed_arrays(buffer, stream):
    """A batch's arrays on the device, which stay where they are."""
    buffer.put_batch(stack(range(12)))
    arrays = buffer.next_batch(stream=stream)
    buffer.reset(0)
    return arrays


def ids_of(batch):
    assert (batch["row"] == stack(batch["id"])["row"]).all()
    return batch["id"].tolist()


@pytest.mark.parametrize("n", [64, 61])
@pytest.mark.parametrize("eager", [0, 3])
def test_replays_serve_the_batches_of_eager_draws(simulation, n, eager):
    streams = [simulation.stream(), simulation.stream()]
    with echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as buffer:
        out = fixed_arrays(buffer, streams[0])
        worker = Worker(put, buffer, n)
        assert draws(buffer, out, streams, ids_of, eager) == expected(n)
        worker.result()
    del out


@pytest.mark.parametrize(
    "chain",
    [
        [t.RandomCrop(7), t.ToDtype(np.float32), t.MixUp(num_classes=5)],
        [t.RandomResizedCrop(8), t.ColorJitter(0.4, 0.4, 0.4), t.RandomErasing()],
        [t.RandomCrop(7, alternate=True), t.RandomHorizontalFlip(alternate=True)],
    ],
    ids=["mixed", "jittered", "alternating"],
)
def test_replays_augment_as_the_cpu_does(simulation, chain):
    spec = {"image": echobuf.Field((9, 11, 3), np.uint8), "label": SPEC["id"]}
    chance = np.random.default_rng(1)
    stacked = {
        "image": chance.integers(0, 256, (24, 9, 11, 3), np.uint8),
        "label": np.arange(24) % 5,
    }
    kwargs = {"transform": {"image": chain}, **KWARGS}

    def put_all(buffer):
        buffer.put_batch(stacked, timeout=WAIT_S)
        buffer.close()

    def copied(batch):
        return {name: np.array(leaf).tobytes() for name, leaf in batch.items()}

    with echobuf.EchoBuffer(spec, **kwargs) as buffer:
        worker = Worker(put_all, buffer)
        wanted = [copied(batch) for batch in buffer]
        worker.result()
    stream = simulation.stream()
    with echobuf.EchoBuffer(spec, device="cuda", **kwargs) as buffer:
        buffer.put_batch({name: leaf[:12] for name, leaf in stacked.items()})
        out = buffer.next_batch(stream=stream)
        buffer.reset(0)
        worker = Worker(put_all, buffer)
        assert draws(buffer, out, [stream], copied) == wanted
        worker.result()
    del out


def test_buffers_come_and_go_while_a_graph_is_captured(simulation):
    stream = simulation.stream()

    def come_and_go():
        echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS).close()

    with echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as buffer:
        out = fixed_arrays(buffer, stream)
        graph = Graph(stream)
        with graph:
            buffer.next_batch(out=out, stream=stream)
            Worker(come_and_go).result()
            come_and_go()  # in the thread that captures, too
        graph.close()
    del out


def test_with_cupy_kernels_are_loaded_while_a_graph_is_captured(cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    graph = Graph(stream)
    with graph, echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as buffer:
        Worker(put, buffer, 12).result()
        assert buffer.next_batch(timeout=WAIT_S)["id"].shape == (4,)
    graph.close()


def test_with_cupy_strided_arrays_are_copied_to_while_a_graph_is_captured(cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    graph = Graph(stream)
    out = {"id": cupy.empty((8,), np.int64)[::2], "row": cupy.empty((4, 5), np.uint8)}
    with graph, echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as buffer:
        Worker(put, buffer, 12).result()
        Worker(lambda: buffer.next_batch(out=out, timeout=WAIT_S)).result()
    graph.close()
    assert out["id"].get().tolist() == expected(12)[0]


def test_calls_that_cannot_be_captured_are_refused(simulation):
    stream = simulation.stream()
    with echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as buffer:
        out = fixed_arrays(buffer, stream)
        graph = Graph(stream)
        with graph:
            buffer.next_batch(out=out, stream=stream)
            with pytest.raises(echobuf.OptionError, match="the same batch twice"):
                buffer.next_batch(out=out, stream=stream)
            with pytest.raises(echobuf.OptionError, match="`stream` is being captured"):
                buffer.before_replay(stream=stream)
        with pytest.raises(TimeoutError):
            buffer.before_replay(stream=stream, timeout=0)
        buffer.put_batch(stack(range(12)))
        buffer.before_replay(stream=stream, timeout=WAIT_S)
        graph.launch(stream)
        assert len(set(out["id"].tolist())) == 4
        graph.close()
    with pytest.raises(echobuf.ClosedError):
        buffer.before_replay(stream=stream)
    del out


@pytest.mark.parametrize("given", [True, False])
def test_functions_on_batches_are_not_captured(simulation, given):
    stream = simulation.stream()
    chain = {"row": [echobuf.transforms.Lambda(lambda leaf: leaf)]}
    buffer = echobuf.EchoBuffer(SPEC, device="cuda", transform=chain, **KWARGS)
    with buffer:
        out = fixed_arrays(buffer, stream) if given else None
        graph = Graph(stream)
        with (
            graph,
            pytest.raises(echobuf.OptionError, match="captured, and a Lambda runs"),
        ):
            buffer.next_batch(out=out, stream=stream)
        buffer.put_batch(stack(range(12)))
        assert len(buffer.next_batch(out=out, stream=stream)["id"]) == 4
        graph.close()
    del out


def test_cupy_makes_no_array_that_a_graph_would_outlive(cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    with echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as buffer:
        out = {"id": cupy.empty((4,), np.int64), "row": cupy.empty((4, 5), np.uint8)}
        wide = {**out, "row": cupy.empty((4, 10), np.uint8)[:, ::2]}
        graph = Graph(stream)
        with graph:
            for kwargs in ({}, {"out": wide}):
                with pytest.raises(echobuf.OptionError, match="`out` is None, or not"):
                    buffer.next_batch(stream=stream, **kwargs)
            assert buffer.next_batch(stream=stream, out=out) is out
        graph.close()


def test_on_the_cpu_there_are_no_graphs():
    with (
        echobuf.EchoBuffer(SPEC, **KWARGS) as buffer,
        pytest.raises(echobuf.OptionError, match="`before_replay`"),
    ):
        buffer.before_replay()
