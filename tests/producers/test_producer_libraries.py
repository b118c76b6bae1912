"""Arrays of CuPy and tensors of torch, whose allocators give memory out again at once.

Both are stand-ins over the simulated driver, which reports what nothing orders.
"""

import numpy as np
import pytest

import echobuf
import fake_cuda
import fake_cupy
import fake_torch
from helpers import KWARGS, SPEC, WAIT_S, Worker, ids_of, make, stack
from helpers import expected_batches as expected
from test_cuda_cupy import host, unchanged
from test_cuda_torch import DEVICE, torch

__all__ = ["torch", "unchanged"]  # fixtures
N = 40


def in_cupy(cupy, tree):
    return {
        "id": cupy.asarray(tree["id"]),
        "body": tuple(cupy.asarray(leaf) for leaf in tree["body"]),
    }


def in_torch(tree):
    """Tensors, made on torch's current stream."""

    def tensor(leaf):
        stream = fake_torch.cuda.current_stream(DEVICE).cuda_stream
        with fake_cuda.BaseStream(stream, 0):
            array = fake_cupy.asarray(leaf)
        return fake_torch.Tensor(array, getattr(fake_torch, leaf.dtype.name))

    return {"id": tensor(tree["id"]), "body": tuple(map(tensor, tree["body"]))}


def parts(n=N, size=5):
    for first in range(0, n, size):
        yield range(first, min(first + size, n))


def feed(buffer, moved, **kwargs):
    """Puts, drops what was put at once, and lets the allocator give it out again."""
    for ids in parts():
        tree = moved(stack(ids))
        buffer.put_batch(tree, timeout=WAIT_S, **kwargs)
        del tree
    buffer.close()


def draws(buffer):
    batches = []
    while True:
        try:
            batches.append(ids_of(host(buffer.next_batch(timeout=WAIT_S))))
        except StopIteration:
            return batches


@pytest.fixture
def check(cupy, unchanged):
    def check(put):
        with make(device="cuda") as buffer:
            worker = Worker(put, buffer)
            assert draws(buffer) == expected(KWARGS, N)
            worker.result()

    return check


def test_cupys_arrays_on_the_null_stream(cupy, check):
    check(lambda buffer: feed(buffer, lambda tree: in_cupy(cupy, tree)))


def test_cupys_arrays_on_the_current_stream(cupy, check):
    def put(buffer):
        with cupy.cuda.Stream(non_blocking=True):
            feed(buffer, lambda tree: in_cupy(cupy, tree))

    check(put)


def test_cupys_arrays_on_the_stream_given(cupy, check):
    """Their memory belongs to the null stream, where it is given out again at once."""

    def put(buffer):
        stream = cupy.cuda.Stream(non_blocking=True)
        for ids in parts():
            tree = in_cupy(cupy, stack(ids))
            event_between(cupy, cupy.cuda.Stream.null, stream)
            with fake_cuda.held(stream):
                buffer.put_batch(tree, timeout=0.5 if ids[0] else WAIT_S, stream=stream)
                del tree
                again = in_cupy(cupy, stack(range(100, 105)))
            del again
        buffer.close()

    with make(device="cuda", window=40, batch_size=4) as buffer:
        put(buffer)
        kwargs = {**KWARGS, "window": 40}
        assert draws(buffer) == expected(kwargs, N)


def event_between(cupy, before, after):
    from echobuf.cuda.simulated_driver import driver

    driver().join(0, after.ptr, before.ptr)


def test_torchs_tensors_on_its_default_stream(torch, check):
    check(lambda buffer: feed(buffer, in_torch))


def test_torchs_tensors_on_its_current_stream(torch, check):
    def put(buffer):
        with torch.cuda.stream(torch.cuda.new_stream(DEVICE)):
            feed(buffer, in_torch)

    check(put)


def test_torchs_stream_counts_for_tensors_whatever_cupys_is(cupy, torch, check):
    def put(buffer):
        with (
            torch.cuda.stream(torch.cuda.new_stream(DEVICE)),
            cupy.cuda.Stream(non_blocking=True),
        ):
            feed(buffer, in_torch)

    check(put)


def test_torchs_tensors_on_the_stream_given(torch, check):
    def put(buffer):
        stream = torch.cuda.new_stream(DEVICE)
        with torch.cuda.stream(stream):
            made = [in_torch(stack(ids)) for ids in parts()]
        for tree in made:
            buffer.put_batch(tree, timeout=WAIT_S, stream=stream)
        buffer.close()

    check(put)


def test_host_leaves_beside_tensors_and_arrays(cupy, torch, check):
    def moved(tree):
        words, tail = tree["body"]
        return {
            "id": in_torch(tree)["id"],
            "body": (words, cupy.asarray(tail)),
        }

    check(lambda buffer: feed(buffer, moved))


def test_overwriting_on_the_same_stream(cupy, check):
    def put(buffer):
        with cupy.cuda.Stream(non_blocking=True):
            kept = in_cupy(cupy, stack(range(5)))
            for ids in parts():
                fresh = in_cupy(cupy, stack(ids))
                kept["id"][...] = fresh["id"]
                for leaf, new in zip(kept["body"], fresh["body"], strict=True):
                    leaf[...] = new
                buffer.put_batch(kept, timeout=WAIT_S)
            buffer.close()

    check(put)


def test_what_a_step_draws_may_be_put_back(cupy, unchanged):
    """A batch, changed in place, is fresh again: the window as a replay buffer."""
    spec = SPEC["id"]
    with echobuf.EchoBuffer(
        spec, batch_size=4, window=8, factor=1, device="cuda"
    ) as buffer:
        buffer.put_batch(cupy.asarray(np.arange(8)))
        seen = []
        for _ in range(10):
            batch = buffer.next_batch(timeout=WAIT_S)
            seen += batch.get().tolist()
            buffer.put_batch(batch, timeout=WAIT_S)
        assert sorted(seen) == sorted([*range(8)] * 5)


def test_arrays_on_another_device(cupy, unchanged):
    with make(device="cuda:0") as buffer:
        with fake_cuda.Device(1):
            tree = in_cupy(cupy, stack(range(4)))
        with pytest.raises(echobuf.SpecError, match="cuda:1"):
            buffer.put_batch(tree)
        assert buffer.stats().fresh == 0


def test_tensors_on_another_device(torch):
    other = fake_torch.device("cuda", 1)
    leaf = fake_torch.empty((4,), dtype=fake_torch.int64, device=other)
    with make(device="cuda:0") as buffer:
        with pytest.raises(echobuf.SpecError, match="cuda:1"):
            buffer.put_batch({**stack(range(4)), "id": leaf})
        assert buffer.stats().fresh == 0


def test_a_buffer_on_the_cpu(cupy, torch, unchanged):
    leaf = cupy.asarray(np.arange(4))
    tensor = in_torch(stack(range(4)))["id"]
    with echobuf.EchoBuffer(SPEC["id"], batch_size=2, window=4) as buffer:
        for given in (leaf, tensor):
            with pytest.raises(echobuf.SpecError, match="cuda"):
                buffer.put_batch(given)
