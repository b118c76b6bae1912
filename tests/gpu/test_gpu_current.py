"""torch's streams and devices, and CuPy's: used as they are, left as they are."""

import numpy as np
import pytest

import echobuf
from gpu_records import SPEC, feed, ids_of, stack
from helpers import WAIT_S, Worker
from test_gpu_streams import expected, make

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch(cuda):
    import torch

    assert torch.cuda.is_available(), "this torch has no CUDA"
    torch.cuda.current_stream()
    return torch


def as_tensors(torch, batch):
    """Views: no stream waits for another."""
    return {
        "id": torch.as_tensor(batch["id"], device="cuda"),
        "body": tuple(torch.as_tensor(a, device="cuda") for a in batch["body"]),
    }


@pytest.mark.parametrize("how", ["current", "stream="])
def test_batches_are_valid_on_a_stream_of_torch(cuda, torch, how):
    stream = torch.cuda.Stream()
    given = stream if how == "stream=" else None
    with make("cuda") as buffer:
        producer = Worker(feed, buffer, 2000)
        held = []
        with torch.cuda.stream(stream):
            while True:
                torch.cuda._sleep(500_000)  # noqa: SLF001 - torch's
                try:
                    batch = buffer.next_batch(timeout=WAIT_S, stream=given)
                except StopIteration:
                    break
                held.append((batch, as_tensors(torch, batch)))
            served = [ids_of(cuda.host(tensors)) for _, tensors in held]
        producer.result()
    assert served == expected(2000)


def state_of(cuda, torch):
    cupy = cuda.cupy
    return (
        cupy.cuda.get_current_stream().ptr,
        cupy.cuda.runtime.getDevice(),
        torch.cuda.current_stream().cuda_stream,
        torch.cuda.current_device(),
        torch.cuda.default_stream().cuda_stream,
    )


@pytest.mark.parametrize("inside", ["default", "cupy", "torch"])
def test_current_stream_and_device_stay_as_they_are(cuda, torch, inside):
    contexts = {
        "default": cuda.cupy.cuda.Stream.null,
        "cupy": cuda.stream(),
        "torch": torch.cuda.stream(torch.cuda.Stream()),
    }
    out = {
        "id": torch.empty(16, dtype=torch.int64, device="cuda"),
        "body": (
            torch.empty(16, 3, 5, device="cuda"),
            torch.empty(32, 7, dtype=torch.uint8, device="cuda")[::2],
        ),
    }
    other = cuda.stream()
    with contexts[inside]:
        before = state_of(cuda, torch)

        def unchanged(result=None):
            assert state_of(cuda, torch) == before

        buffer = make("cuda")
        unchanged()
        unchanged(buffer.put_batch(stack(range(96))))
        unchanged(buffer.next_batch())
        unchanged(buffer.next_batch(stream=other))
        unchanged(buffer.next_batch(out=out))
        with pytest.raises(TimeoutError):
            [buffer.next_batch(timeout=0.01) for _ in range(20)]
        unchanged()
        unchanged(buffer.ready())
        unchanged(buffer.close())
        unchanged(buffer.reset())
        unchanged(buffer.__exit__(None, None, None))


OUTS = {
    "cupy": lambda m, shape, dtype: m[0].empty(shape, dtype),
    "cupy, every other row": lambda m, shape, dtype: m[0].empty(
        (2 * shape[0], *shape[1:]), dtype
    )[::2],
    "cupy, transposed": lambda m, shape, dtype: m[0].empty(shape[::-1], dtype).T,
    "torch": lambda m, shape, dtype: m[1].empty(
        shape, dtype=getattr(m[1], dtype), device="cuda"
    ),
    "torch, every other row": lambda m, shape, dtype: m[1].empty(
        (2 * shape[0], *shape[1:]), dtype=getattr(m[1], dtype), device="cuda"
    )[::2],
    "torch, transposed": lambda m, shape, dtype: (
        m[1]
        .empty(shape[::-1], dtype=getattr(m[1], dtype), device="cuda")
        .permute(*reversed(range(len(shape))))
    ),
}


@pytest.mark.parametrize("kind", OUTS)
def test_out_may_be_any_array_on_the_device(cuda, torch, kind):
    modules = (cuda.cupy, torch)
    out = {
        "id": OUTS[kind](modules, (16,), "int64"),
        "body": (
            OUTS[kind](modules, (16, 3, 5), "float32"),
            OUTS[kind](modules, (16, 7), "uint8"),
        ),
    }
    with make("cuda") as buffer:
        producer = Worker(feed, buffer, 333)
        served = []
        while True:
            try:
                batch = buffer.next_batch(out=out, timeout=WAIT_S)
            except StopIteration:
                break
            assert batch is out or len(batch["id"]) < 16
            served.append(ids_of(cuda.host(batch)))
        producer.result()
    assert served == expected(333)


def test_unaligned_places_in_one_piece_of_memory(cuda):
    """A view that begins at any byte is written to that byte, and no further."""
    cupy = cuda.cupy
    spec = echobuf.Field((37,), np.uint8)
    with echobuf.EchoBuffer(
        spec, batch_size=8, window=64, factor=8, device="cuda", seed=5
    ) as buffer:
        fresh = np.random.default_rng(0).integers(0, 250, (64, 37), np.uint8)
        buffer.put_batch(fresh)
        buffer.close()
        rows = {row.tobytes() for row in fresh}
        for start in range(40):
            memory = cupy.full(8 * 37 + 80, 255, np.uint8)
            out = memory[start : start + 8 * 37].reshape(8, 37)
            buffer.next_batch(out=out, timeout=WAIT_S)
            assert {row.tobytes() for row in out.get()} <= rows
            around = memory.get()
            around[start : start + 8 * 37] = 255
            assert (around == 255).all()


def test_arrays_speak_both_protocols(cuda, torch):
    with make("cuda") as buffer:
        buffer.put_batch(stack(range(96)))
        batch = buffer.next_batch()
        assert isinstance(batch["id"], cuda.cupy.ndarray)
        assert batch["id"].__cuda_array_interface__["data"][0] % 64 == 0
        tensors = [torch.from_dlpack(leaf) for leaf in (batch["id"], *batch["body"])]
        whole = {"id": tensors[0], "body": tuple(tensors[1:])}
        assert ids_of(cuda.host(whole)) == ids_of(cuda.host(batch))


def test_spec_leaves_may_be_arrays(cuda):
    example = {name: leaf for name, leaf in stack([0]).items() if name == "id"}
    with echobuf.EchoBuffer(
        example["id"][0], batch_size=2, window=2, factor=1, device="cuda"
    ) as buffer:
        buffer.put_batch(np.array([5, 6]))
        assert sorted(buffer.next_batch().get().tolist()) == [5, 6]
    assert SPEC["id"].dtype == example["id"].dtype
