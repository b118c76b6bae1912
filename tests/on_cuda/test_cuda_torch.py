"""Batches as torch's tensors on a device; torch is a stand-in with CUDA here."""

import sys

import numpy as np
import pytest

pytest.importorskip("torch")

import echobuf
import fake_cuda
import fake_torch
from echobuf.loader_buffer import LoaderBuffer
from graphs import Graph
from helpers import KWARGS, SPEC, WAIT_S, Worker, ids_of, make, stack
from helpers import expected_batches as expected
from test_cuda_cupy import filled, host, unchanged

__all__ = ["unchanged"]  # a fixture
DEVICE = fake_torch.device("cuda", 0)


@pytest.fixture
def torch(cupy, unchanged, monkeypatch):
    """The stand-in; its current streams are the same afterwards."""
    from echobuf.cuda import torch_arrays

    monkeypatch.setitem(sys.modules, "torch", fake_torch)
    monkeypatch.setattr(torch_arrays, "torch", fake_torch)

    def seen():
        devices = (fake_torch.device("cuda", number) for number in range(2))
        return [fake_torch.cuda.current_stream(d).cuda_stream for d in devices]

    before = seen()
    yield fake_torch
    after = seen()
    fake_torch.cuda.forget()
    assert after == before


def use_tensors(buffer, dtypes=(None, None, None)):
    buffer.backend.use_tensors(list(dtypes))
    return buffer


def drain(buffer):
    while True:
        try:
            yield ids_of(host(buffer.next_batch(timeout=WAIT_S)))
        except StopIteration:
            return


def tensors(torch, n=KWARGS["batch_size"]):
    return {
        "id": torch.empty((n,), dtype=torch.int64, device=DEVICE),
        "body": tuple(
            torch.empty(
                (n, *field.shape),
                dtype=getattr(torch, field.dtype.name),
                device=DEVICE,
            )
            for field in SPEC["body"]
        ),
    }


def test_order_and_bytes_are_those_of_the_cpu(torch):
    with filled(kind=LoaderBuffer) as buffer:
        assert list(drain(use_tensors(buffer))) == expected(KWARGS, 20)


def test_tensors_have_the_dtypes_given(torch):
    spec = echobuf.Field((3,), np.int16)  # which carries bfloat16
    with LoaderBuffer(
        spec, batch_size=2, window=2, factor=1, device="cuda:1"
    ) as buffer:
        buffer.backend.use_tensors([torch.bfloat16])
        buffer.put_batch(np.ones((3, 3), np.int16))
        buffer.close()
        first, last = (buffer.next_batch(timeout=WAIT_S) for _ in range(2))
        assert (first.shape, last.shape) == ((2, 3), (1, 3))
        assert first.dtype is last.dtype is torch.bfloat16
        assert str(first.device) == "cuda:1"
        assert (first.get() == 1).all()


def test_tensors_are_valid_on_torchs_current_stream(torch):
    with (
        torch.cuda.stream(torch.cuda.new_stream(DEVICE)),
        filled(kind=LoaderBuffer) as buffer,
    ):
        assert list(drain(use_tensors(buffer))) == expected(KWARGS, 20)


def test_tensors_are_valid_on_the_stream_given(torch):
    stream = torch.cuda.new_stream(DEVICE)
    got = []
    with filled(kind=LoaderBuffer) as buffer:
        use_tensors(buffer)
        for _ in expected(KWARGS, 20):
            batch = buffer.next_batch(timeout=WAIT_S, stream=stream)
            with torch.cuda.stream(stream):
                got.append(ids_of(host(batch)))
    assert got == expected(KWARGS, 20)


@pytest.mark.parametrize("handle", [0, 1])
def test_the_default_stream_may_be_given_while_another_is_current(torch, handle):
    """Memory must then be the default stream's, too, not that of one of the pool."""
    with filled(kind=LoaderBuffer) as buffer:
        use_tensors(buffer)
        with torch.cuda.stream(torch.cuda.new_stream(DEVICE)):
            for want in expected(KWARGS, 20):
                batch = buffer.next_batch(timeout=WAIT_S, stream=handle)
                with torch.cuda.stream(torch.cuda.default_stream(DEVICE)):
                    assert ids_of(host(batch)) == want
                del batch
        assert len(torch.cuda.owned) == 1


def test_tensors_are_made_while_another_thread_captures_a_graph(torch, cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    graph = Graph(stream)
    with use_tensors(make(device="cuda", kind=LoaderBuffer)) as buffer:
        buffer.put_batch(stack(range(12)))
        with graph:
            batch = Worker(lambda: buffer.next_batch(timeout=WAIT_S)).result()
        assert ids_of(host(batch)) == expected(KWARGS, 12)[0]
    graph.close()


def test_a_tensor_dropped_while_it_is_drawn_is_not_written_over(torch, cupy):
    own = cupy.cuda.Stream(non_blocking=True)
    stream = torch.Stream(DEVICE, own.ptr)
    with filled(kind=LoaderBuffer) as buffer:
        use_tensors(buffer)
        with fake_cuda.held(own):
            first = buffer.next_batch(timeout=WAIT_S, stream=stream)["id"].data_ptr()
            batch = buffer.next_batch(timeout=WAIT_S, stream=stream)
            assert batch["id"].data_ptr() == first
        with torch.cuda.stream(stream):
            assert ids_of(host(batch)) == expected(KWARGS, 20)[1]
        del batch


# ---- out=


@pytest.mark.parametrize("drawn", ["tensors", "arrays"])
@pytest.mark.parametrize("layout", ["rows", "backwards"])
def test_out_takes_tensors_whatever_batches_are(torch, drawn, layout):
    stream = torch.cuda.new_stream(DEVICE)
    out = tensors(torch)
    if layout == "backwards":
        out["id"] = out["id"][::-1]
    with filled(kind=LoaderBuffer) as buffer, torch.cuda.stream(stream):
        if drawn == "tensors":
            use_tensors(buffer)
        for want in expected(KWARGS, 20):
            assert buffer.next_batch(out, timeout=WAIT_S) is out
            assert ids_of(host(out)) == want


def test_torchs_stream_counts_for_its_tensors_whatever_cupys_is(torch, cupy):
    out = tensors(torch)
    with (
        filled(kind=LoaderBuffer) as buffer,
        cupy.cuda.Stream(non_blocking=True),
        torch.cuda.stream(torch.cuda.new_stream(DEVICE)),
    ):
        for want in expected(KWARGS, 20):
            buffer.next_batch(out, timeout=WAIT_S)
            assert ids_of(host(out)) == want


@pytest.mark.parametrize("kind", [echobuf.EchoBuffer, LoaderBuffer])
def test_arrays_of_cupys_are_put_on_cupys_stream_whatever_torchs_is(torch, cupy, kind):
    spec, kwargs = echobuf.Field((3,), np.int64), {"window": 4, "factor": 1}
    with kind(spec, batch_size=4, device="cuda", **kwargs) as buffer:
        if kind is LoaderBuffer:
            use_tensors(buffer, [None])
        other = torch.cuda.new_stream(DEVICE)
        with torch.cuda.stream(other):
            for number in range(4):
                array = cupy.asarray(np.full(3, number))  # on the default stream
                buffer.put(array, timeout=WAIT_S)
        buffer.close()
        batch = buffer.next_batch(timeout=WAIT_S)
        assert sorted(batch.get()[:, 0].tolist()) == [0, 1, 2, 3]


def test_out_takes_cupys_arrays_where_batches_are_tensors(torch, cupy):
    out = tensors(torch)
    out["id"] = cupy.empty((2 * KWARGS["batch_size"],), np.int64)[::2]
    with filled(kind=LoaderBuffer) as buffer:
        use_tensors(buffer)
        for want in expected(KWARGS, 20):
            buffer.next_batch(out, timeout=WAIT_S)
            assert ids_of(host(out)) == want


def changed(leaf, **attributes):
    for name, value in attributes.items():
        setattr(leaf, name, value)
    return leaf


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"device": fake_torch.device("cuda", 1)}, "on cuda:1"),
        ({"device": fake_torch.device("cpu")}, "on cpu"),
        ({"requires_grad": True}, "requires a gradient"),
        ({"dtype": fake_torch.float64}, "dtype torch.float64"),
        ({"layout": "torch.sparse_coo"}, "torch.sparse_coo; give a dense tensor"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(torch, attributes, says):
    out = tensors(torch)
    changed(out["id"], **attributes)
    with filled(kind=LoaderBuffer) as buffer:
        with pytest.raises(echobuf.SpecError, match=says):
            buffer.next_batch(out, timeout=WAIT_S)
        assert list(drain(use_tensors(buffer))) == expected(KWARGS, 20)


# ---- what torch refuses


@pytest.mark.parametrize("kind", ["next_batch", "stream", "out"])
def test_no_room_for_a_batch(torch, kind):
    with filled(kind=LoaderBuffer) as buffer:
        use_tensors(buffer)
        out = tensors(torch)
        out["id"] = out["id"][::-1]
        given = {
            "stream": {"stream": torch.cuda.new_stream(DEVICE)},
            "out": {"out": out},
        }.get(kind, {})
        error = torch.cuda.OutOfMemoryError("CUDA out of memory.")
        torch.cuda.refuses = {0: error}
        with pytest.raises(echobuf.CapacityError, match="CUDA out of memory"):
            buffer.next_batch(timeout=WAIT_S, **given)
        torch.cuda.refuses = {}
        assert list(drain(buffer)) == expected(KWARGS, 20)


def test_an_allocator_that_the_device_is_lost_for(torch):
    with filled(kind=LoaderBuffer) as buffer:
        use_tensors(buffer)
        error = torch.cuda.AcceleratorError("CUDA error: an illegal memory access")
        torch.cuda.refuses = {0: error}
        with pytest.raises(echobuf.DeviceError, match="illegal memory access"):
            buffer.next_batch(timeout=WAIT_S)
        torch.cuda.refuses = {}


def test_a_torch_without_cuda(torch):
    torch.cuda.available = False
    with filled(kind=LoaderBuffer) as buffer:
        says = r"this torch \(2.13.0\+cu130\) cannot use CUDA.*`echobuf.EchoLoader`"
        with pytest.raises(echobuf.DeviceError, match=says):
            use_tensors(buffer)


def test_a_loader_with_a_torch_without_cuda_gives_its_memory_back(cupy, unchanged):
    real = pytest.importorskip("torch")
    if real.cuda.is_available():
        pytest.skip("this torch can")
    from echobuf.torch import EchoLoader

    echobuf.warmup("cuda")
    before = fake_cuda.memory_info()
    upstream = [{"id": number} for number in range(8)]
    loader = EchoLoader(upstream, batch_size=2, window=4, device="cuda")
    with pytest.raises(echobuf.DeviceError, match=r"this torch.*cannot use CUDA"):
        next(iter(loader))
    assert fake_cuda.memory_info() == before


def test_a_converter_gets_the_stream_of_the_draw(torch):
    stream = torch.cuda.new_stream(DEVICE)
    seen = []

    def convert(leaves, handle):
        seen.append(handle)
        return leaves

    with filled(kind=LoaderBuffer) as buffer:
        buffer.backend.use_converted(convert)
        with torch.cuda.stream(stream):  # CuPy's current one is a default stream
            buffer.next_batch(timeout=WAIT_S)
    assert seen == [stream.cuda_stream]
