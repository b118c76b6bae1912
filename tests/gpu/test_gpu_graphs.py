"""Draws within CUDA graphs: replays are the eager sequence."""

import copy

import numpy as np
import pytest

from gpu_records import feed, ids_of, stack
from helpers import WAIT_S, Worker
from test_gpu_streams import KWARGS, expected, make

pytestmark = pytest.mark.gpu
BATCH = KWARGS["batch_size"]


@pytest.fixture
def torch(cuda):
    import torch

    assert torch.cuda.is_available(), "this torch has no CUDA"
    return torch


def tensors(torch):
    return {
        "id": torch.zeros(BATCH, dtype=torch.int64, device="cuda"),
        "body": (
            torch.zeros(BATCH, 3, 5, device="cuda"),
            torch.zeros(BATCH, 7, dtype=torch.uint8, device="cuda"),
        ),
    }


def arrays(cupy):
    return {
        "id": cupy.zeros(BATCH, np.int64),
        "body": (
            cupy.zeros((BATCH, 3, 5), np.float32),
            cupy.zeros((BATCH, 7), np.uint8),
        ),
    }


def replays(buffer, replay, stream=None):
    """Replays until a whole batch is no longer sure; how often."""
    done = 0
    while True:
        try:
            buffer.before_replay(stream=stream, timeout=WAIT_S)
        except StopIteration:
            return done
        replay()
        done += 1


def tail(cuda, buffer):
    return [ids_of(cuda.host(batch)) for batch in buffer]


# 333 * 2 leaves a ragged tail; fractions have segments of which some live longer.
@pytest.mark.parametrize("count", [333, 2000])
@pytest.mark.parametrize("factor", [2, 2.5, 5])
def test_replays_of_a_torch_graph_are_the_eager_sequence(cuda, torch, count, factor):
    with make("cuda", factor=factor) as buffer:
        producer = Worker(feed, buffer, count)
        out, served = tensors(torch), []
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            assert buffer.next_batch(out=out) is out

        def replay():
            graph.replay()
            served.append(ids_of(cuda.host(out)))

        assert replays(buffer, replay) > 0
        assert served + tail(cuda, buffer) == expected(count, factor=factor)
        producer.result()


def test_replays_of_a_cupy_graph_are_the_eager_sequence(cuda):
    stream = cuda.stream()
    with make("cuda") as buffer, stream:
        producer = Worker(feed, buffer, 333)
        out, served = arrays(cuda.cupy), []
        stream.begin_capture()
        buffer.next_batch(out=out)
        graph = stream.end_capture()

        def replay():
            graph.launch(stream)
            served.append(ids_of(cuda.host(out)))

        assert replays(buffer, replay, stream) > 0
        assert served + tail(cuda, buffer) == expected(333)
        producer.result()


def test_capturing_consumes_nothing(cuda, torch):
    out = tensors(torch)
    with make("cuda") as buffer:
        for _ in range(3):  # before there is anything to consume
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                buffer.next_batch(out=out)
        buffer.put_batch(stack(range(96)), timeout=WAIT_S)
        before = buffer.stats().served
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            buffer.next_batch(out=out)
        assert buffer.stats().served == before == 0
        buffer.close()
        assert tail(cuda, buffer) == expected(96)


def test_slow_replays_keep_what_they_have_not_drawn_yet(cuda, torch):
    """Replays are queued far ahead of the device, while fresh examples keep coming."""
    count = 2000
    with make("cuda") as buffer:
        producer = Worker(feed, buffer, count)
        out, at = tensors(torch), torch.zeros(1, dtype=torch.int64, device="cuda")
        seen = torch.zeros(2 * count // BATCH, BATCH, dtype=torch.int64, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            torch.cuda._sleep(500_000)  # noqa: SLF001 - torch's
            buffer.next_batch(out=out)
            seen.index_copy_(0, at, out["id"][None])
            at += 1
        done = replays(buffer, graph.replay)
        assert seen[:done].cpu().tolist() + tail(cuda, buffer) == expected(count)
        producer.result()


def test_eager_draws_and_replays_may_alternate(cuda, torch):
    with make("cuda") as buffer:
        producer = Worker(feed, buffer, 400)
        out, served = tensors(torch), []
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            buffer.next_batch(out=out)
        while True:
            try:
                buffer.before_replay(timeout=WAIT_S)
                graph.replay()
                served.append(ids_of(cuda.host(out)))
                served.append(ids_of(cuda.host(buffer.next_batch(timeout=WAIT_S))))
            except StopIteration:
                break
        assert served + tail(cuda, buffer) == expected(400)
        producer.result()


def test_a_graph_goes_on_in_the_next_epoch(cuda, torch):
    with make("cuda") as buffer, make("cpu") as reference:
        out = tensors(torch)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            buffer.next_batch(out=out)
        for _ in range(3):
            served = []
            producers = [Worker(feed, b, 320) for b in (buffer, reference)]

            def replay(served=served):
                graph.replay()
                served.append(ids_of(cuda.host(out)))

            replays(buffer, replay)
            assert served + tail(cuda, buffer) == [ids_of(b) for b in reference]
            for producer in producers:
                producer.result()
            buffer.reset()
            reference.reset()


# ---- a whole training step


def step_of(torch, model, optimizer, batch):
    inputs = batch["body"][0].flatten(1) / 1e5
    targets = batch["id"].float()[:, None] / 1e3
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()


def new_model(torch):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(15, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
    ).cuda()
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def trained_eagerly(torch, count):
    model, optimizer = new_model(torch)
    with make("cpu", drop_last=True) as buffer:
        producer = Worker(feed, buffer, count)
        for batch in buffer:
            optimizer.zero_grad(set_to_none=True)
            there = {
                "id": torch.from_numpy(batch["id"]).cuda(),
                "body": (torch.from_numpy(batch["body"][0]).cuda(), None),
            }
            step_of(torch, model, optimizer, there)
        producer.result()
    return model


def test_a_whole_training_step_in_a_graph_learns_the_same(cuda, torch):
    count = 600
    model, optimizer = new_model(torch)
    fresh = copy.deepcopy(model.state_dict())
    out = tensors(torch)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # as torch's documentation asks for
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            step_of(torch, model, optimizer, out)
    torch.cuda.current_stream().wait_stream(side)
    model.load_state_dict(fresh)
    with make("cuda", drop_last=True) as buffer:
        producer = Worker(feed, buffer, count)
        graph = torch.cuda.CUDAGraph()
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            buffer.next_batch(out=out)
            step_of(torch, model, optimizer, out)
        assert replays(buffer, graph.replay) == 2 * count // BATCH
        producer.result()
    for one, other in zip(
        model.parameters(), trained_eagerly(torch, count).parameters(), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_before_replay_waits_no_longer_than_told(cuda, torch):
    out = tensors(torch)
    with make("cuda") as buffer:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            buffer.next_batch(out=out)
        with pytest.raises(TimeoutError):
            buffer.before_replay(timeout=0.05)
        buffer.close()
        with pytest.raises(StopIteration):
            buffer.before_replay(timeout=WAIT_S)
