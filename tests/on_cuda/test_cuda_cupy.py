"""Windows on a device with CuPy, which is a stand-in over the simulated driver here."""

import contextlib
import gc
import itertools
import sys

import numpy as np
import pytest

import echobuf
import fake_cuda
import fake_memory
from echobuf.cuda.codegen import DRAW_KERNELS
from helpers import KWARGS, SPEC, WAIT_S, Worker, ids_of, make, stack
from helpers import expected_batches as expected


def host(batch):
    """Read a batch on the current stream of its device."""
    return {
        "id": batch["id"].get(),
        "body": tuple(leaf.get() for leaf in batch["body"]),
    }


def empty_batch(cupy, n=KWARGS["batch_size"]):
    words, tail = SPEC["body"]
    return {
        "id": cupy.empty((n,), np.int64),
        "body": (
            cupy.empty((n, *words.shape), words.dtype),
            cupy.empty((n, *tail.shape), tail.dtype),
        ),
    }


@contextlib.contextmanager
def filled(n=20, **kwargs):
    """A buffer that another thread puts `n` examples into."""
    buffer = make(device="cuda", **kwargs)

    def feed():
        with contextlib.suppress(echobuf.ClosedError, echobuf.DeviceError):
            buffer.put_batch(stack(range(n)), timeout=WAIT_S)
            buffer.close()

    feeder = Worker(feed)
    try:
        with buffer:
            yield buffer
    finally:  # a test that fails leaves the next one no thread that uses the device
        feeder.result()


def drain(buffer, **kwargs):
    while True:
        try:
            yield ids_of(host(buffer.next_batch(timeout=WAIT_S, **kwargs)))
        except StopIteration:
            return


@pytest.fixture
def unchanged(cupy):
    """The caller's device and streams are the same afterwards."""

    def seen():
        return fake_cuda.get_device(), [
            cupy.cuda.get_current_stream(number).ptr for number in range(2)
        ]

    before = seen()
    yield
    assert seen() == before


def test_order_and_bytes_are_those_of_the_cpu(cupy, unchanged):
    with filled() as buffer:
        assert list(drain(buffer)) == expected(KWARGS, 20)


@pytest.mark.parametrize("factor", [1, 2.5, "auto"])
def test_every_example_is_served_whole(cupy, unchanged, factor):
    with filled(factor=factor) as buffer:
        served = {number for batch in drain(buffer) for number in batch}
    assert served == set(range(20))


def test_batches_of_whole_batches_may_be_shorter(cupy, unchanged):
    spec = echobuf.Field((4, 3), np.float32)
    with echobuf.EchoBuffer(spec, window=2, factor=1, unit="batch", device="cuda") as b:
        for n in (4, 2):
            b.put(np.full((n, 3), n, np.float32))
        b.close()
        got = [b.next_batch(timeout=WAIT_S).get() for _ in range(2)]
    assert sorted(len(batch) for batch in got) == [2, 4]
    assert all((batch == len(batch)).all() for batch in got)


def test_leaves_are_aligned_and_in_one_block(cupy):
    with filled() as buffer:
        batch = buffer.next_batch(timeout=WAIT_S)
        leaves = [batch["id"], *batch["body"]]
        assert len({id(leaf.data.mem) for leaf in leaves}) == 1
        assert all(leaf.data.ptr % 64 == 0 for leaf in leaves)


# ---- streams: what is read on another than the batch is valid on would be a race


def test_a_batch_is_valid_on_the_current_stream(cupy, unchanged):
    with filled() as buffer, cupy.cuda.Stream(non_blocking=True):
        assert list(drain(buffer)) == expected(KWARGS, 20)


@pytest.mark.parametrize("form", ["cupy", "torch", "protocol", "handle"])
def test_a_batch_is_valid_on_the_stream_given(cupy, unchanged, form):
    stream = cupy.cuda.Stream(non_blocking=True)

    class Torch:
        cuda_stream = stream.ptr

    class Protocol:
        def __cuda_stream__(self):
            return 0, stream.ptr

    forms = {"cupy": stream, "torch": Torch(), "protocol": Protocol()}
    given = forms.get(form, stream.ptr)
    got = []
    with filled() as buffer:
        for _ in expected(KWARGS, 20):
            batch = buffer.next_batch(timeout=WAIT_S, stream=given)
            with stream:
                got.append(ids_of(host(batch)))
    assert got == expected(KWARGS, 20)


@pytest.mark.parametrize("handle", [0, 1, 2])
def test_a_batch_is_valid_on_a_default_stream(cupy, unchanged, handle):
    reader = {0: cupy.cuda.Stream.null, 2: cupy.cuda.Stream.ptds}
    with filled() as buffer, cupy.cuda.Stream(non_blocking=True):
        batch = buffer.next_batch(timeout=WAIT_S, stream=handle)
        with reader.get(handle, cupy.cuda.Stream.null):
            assert ids_of(host(batch)) == expected(KWARGS, 20)[0]


def test_reading_on_another_stream_is_a_race_that_would_be_seen(cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    with filled() as buffer:
        with fake_cuda.held(stream):
            batch = buffer.next_batch(timeout=WAIT_S, stream=stream)
            batch["id"].get()
        stream.synchronize()
    assert any("race" in report for report in fake_cuda.driver().reports())
    fake_cuda.stop()
    fake_cuda.start()


def test_a_stream_made_current_by_use_stays_current(cupy, unchanged):
    """A `with` of CuPy's brings back the stream of the `with` around it."""
    other, chosen = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    before = cupy.cuda.get_current_stream()
    with filled() as buffer:
        chosen.use()
        buffer.next_batch(timeout=WAIT_S, stream=other)
        buffer.next_batch(empty_batch(cupy), timeout=WAIT_S, stream=other)
        assert cupy.cuda.get_current_stream() is chosen
    before.use()


class TorchCuda:
    """The part of `torch.cuda` that is asked for the current stream."""

    def __init__(self, stream):
        self.stream = stream

    def is_initialized(self):
        return True

    def current_stream(self, device):
        return self.stream


class TorchStream:
    def __init__(self, handle):
        self.cuda_stream = handle


@pytest.fixture
def torch_cuda(monkeypatch):
    class Torch:
        Tensor = type("Tensor", (), {})
        cuda = TorchCuda(TorchStream(0))

    monkeypatch.setitem(sys.modules, "torch", Torch)
    return Torch.cuda


def test_torchs_stream_counts_where_cupys_is_a_default_one(cupy, unchanged, torch_cuda):
    stream = cupy.cuda.Stream(non_blocking=True)
    torch_cuda.stream = TorchStream(stream.ptr)
    with filled() as buffer:
        batch = buffer.next_batch(timeout=WAIT_S)
        with stream:
            assert ids_of(host(batch)) == expected(KWARGS, 20)[0]


@pytest.mark.parametrize("initialized", [True, False])
def test_torchs_stream_does_not_count_otherwise(
    cupy, unchanged, torch_cuda, initialized
):
    torch_cuda.stream = TorchStream(0 if initialized else 77)
    torch_cuda.is_initialized = lambda: initialized
    with filled() as buffer:
        batch = buffer.next_batch(timeout=WAIT_S)
        assert ids_of(host(batch)) == expected(KWARGS, 20)[0]


def test_cupys_stream_comes_before_torchs(cupy, unchanged, torch_cuda):
    torch_cuda.stream = TorchStream(cupy.cuda.Stream(non_blocking=True).ptr)
    with filled() as buffer, cupy.cuda.Stream(non_blocking=True):
        assert list(drain(buffer)) == expected(KWARGS, 20)


@pytest.mark.parametrize("stream", ["cuda:0", True, -1, 1.5, object()])
def test_values_that_are_no_stream_are_refused(cupy, unchanged, stream):
    with filled() as buffer:
        with pytest.raises(echobuf.OptionError, match="`stream`"):
            buffer.next_batch(stream=stream)
        assert list(drain(buffer)) == expected(KWARGS, 20)


def test_a_stream_of_another_device_is_refused(cupy, unchanged):
    with cupy.cuda.Device(1):
        other = cupy.cuda.Stream(non_blocking=True)
    with filled() as buffer:
        with pytest.raises(echobuf.OptionError, match="`stream` is on cuda:1"):
            buffer.next_batch(stream=other)
        assert list(drain(buffer)) == expected(KWARGS, 20)


# ---- devices


def test_a_buffer_on_another_device_than_the_current_one(cupy, unchanged):
    with filled() as first, make(device="cuda:1") as second:
        second.put_batch(stack(range(5)))
        second.close()
        batch = second.next_batch(timeout=WAIT_S)
        assert {leaf.device.id for leaf in (batch["id"], *batch["body"])} == {1}
        assert ids_of(host(batch)) == expected(KWARGS, 5)[0]
        assert list(drain(first)) == expected(KWARGS, 20)


def test_cuda_is_the_current_device(cupy, unchanged):
    with cupy.cuda.Device(1):
        buffer = make(device="cuda")
    with buffer:
        buffer.put_batch(stack(range(8)))
        assert buffer.next_batch(timeout=WAIT_S)["id"].device.id == 1


def test_examples_from_the_host_may_come_while_another_device_is_current(
    cupy, unchanged
):
    with make(device="cuda:0") as buffer, cupy.cuda.Device(1):
        buffer.put_batch(stack(range(8)))
        buffer.close()
        assert list(drain(buffer)) == expected(KWARGS, 8)


# ---- memory


def test_a_batch_dropped_while_it_is_drawn_is_not_written_over(cupy, unchanged):
    stream = cupy.cuda.Stream(non_blocking=True)
    with filled() as buffer:
        with fake_cuda.held(stream):
            first = buffer.next_batch(timeout=WAIT_S, stream=stream)["id"].data.ptr
            batch = buffer.next_batch(timeout=WAIT_S, stream=stream)
            assert batch["id"].data.ptr == first  # the pool has given it out again
            elsewhere = buffer.next_batch(timeout=WAIT_S)
            assert elsewhere["id"].data.ptr != first
            del elsewhere
        with stream:
            assert ids_of(host(batch)) == expected(KWARGS, 20)[1]


def test_all_memory_is_given_back(cupy, unchanged):
    with filled() as warm:
        warm.next_batch(timeout=WAIT_S)
    gc.collect()
    fake_memory.free_all_blocks()
    before = fake_cuda.memory_info()
    for _ in range(3):
        with filled() as buffer:
            list(drain(buffer))
    gc.collect()
    fake_memory.free_all_blocks()
    assert fake_cuda.memory_info() == before


def test_batches_outlive_the_buffer(cupy, unchanged):
    with filled() as buffer:
        batch = buffer.next_batch(timeout=WAIT_S)
    del buffer
    gc.collect()
    assert ids_of(host(batch)) == expected(KWARGS, 20)[0]


def test_kernels_stay_loaded_whatever_cupy_forgets(cupy):
    echobuf.warmup("cuda")
    gc.collect()
    assert len(cupy.kernels) == len(DRAW_KERNELS)
    with filled() as buffer:
        list(drain(buffer))
    assert len(cupy.kernels) == len(DRAW_KERNELS)


def test_warmup_leaves_all_as_it_was(cupy, unchanged):
    echobuf.warmup("cuda:1")
    assert len(cupy.kernels) == len(DRAW_KERNELS)


# ---- threads


def test_consumers_on_streams_of_their_own(cupy, unchanged):
    with filled(factor=3) as buffer:

        def consume():
            with cupy.cuda.Stream(non_blocking=True):
                return list(drain(buffer))

        workers = [Worker(consume) for _ in range(3)]
        served = [batch for worker in workers for batch in worker.result()]
    kwargs = {**KWARGS, "factor": 3}
    assert sorted(served) == sorted(expected(kwargs, 20))


def test_several_buffers_in_several_threads(cupy, unchanged):
    def run(seed):
        with (
            cupy.cuda.Device(seed % 2),
            cupy.cuda.Stream(non_blocking=True),
            filled(seed=seed) as buffer,
        ):
            return list(drain(buffer))

    workers = [Worker(run, seed) for seed in range(4)]
    for seed, worker in enumerate(workers):
        assert worker.result() == expected({**KWARGS, "seed": seed}, 20)


def test_upstream_works_on_the_callers_device_and_stream(cupy):
    with cupy.cuda.Device(1), cupy.cuda.Stream(non_blocking=True):
        items = [cupy.asarray(np.full(3, number)) for number in range(20)]
        made = (cupy.asarray(np.full(3, number)) for number in range(20, 40))
        upstream = itertools.chain(items, made)
        kwargs = {"batch_size": 4, "window": 8, "factor": 1, "device": "cuda:1"}
        batches = [batch.get() for batch in echobuf.EchoLoader(upstream, **kwargs)]
    assert sorted(np.concatenate(batches)[:, 0].tolist()) == [*range(40)]
