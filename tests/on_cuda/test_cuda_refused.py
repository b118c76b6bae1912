"""Refusals of a device, its driver or CuPy: their messages, and memory given back."""

import builtins
import gc
import itertools
import re
import sys
from types import ModuleType

import numpy as np
import pytest

import echobuf
import fake_cuda
import fake_memory
from echobuf.cuda import cupy_device
from helpers import KWARGS, WAIT_S, ids_of, make, stack
from helpers import expected_batches as expected
from test_cuda_cupy import drain, filled, host, unchanged

__all__ = ["unchanged"]  # a fixture
ILLEGAL_ADDRESS = 700
OPERATING_SYSTEM = 304


@pytest.fixture
def gives_back(cupy, unchanged):
    """To be called while the error is at hand: all that was allocated is given back."""
    echobuf.warmup("cuda")
    before = fake_cuda.memory_info()

    def check():
        fake_memory.free_all_blocks()
        assert fake_cuda.memory_info() == before

    yield check
    check()


def refused(error, says, **kwargs):
    with pytest.raises(error, match=says) as caught:
        make(**{"device": "cuda", **kwargs})
    return caught


# ---- the driver and CuPy


@pytest.mark.parametrize(
    ("library", "says"),
    [
        ("libechobuf-none.so.1", "no CUDA driver.*install the NVIDIA driver.*'cpu'"),
        ("libc.so.6", "too old: libc.so.6 has no cuInit.*install the NVIDIA driver"),
    ],
)
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_no_driver_or_one_too_old(cupy, monkeypatch, library, says, device):
    monkeypatch.setattr(cupy_device, "LIBRARY", library)
    refused(echobuf.DeviceError, says, device=device)
    with pytest.raises(echobuf.DeviceError, match=says):
        echobuf.warmup(device)


@pytest.mark.parametrize(
    ("code", "says"),
    [(100, "no CUDA device; see `nvidia-smi`"), (803, "restart the machine")],
)
def test_a_driver_that_cannot_start(cupy, code, says):
    fake_cuda.fail("cuInit", code)
    refused(echobuf.DeviceError, f"cuInit.*{says}")


def test_no_cupy(cupy, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    refused(echobuf.DeviceError, "needs CuPy.*pip install cupy-cuda13x")


def test_a_cupy_that_is_too_old(cupy, monkeypatch):
    monkeypatch.delattr(cupy.cuda.Stream, "from_external")
    monkeypatch.setattr(cupy, "__version__", "13.6.0")
    refused(echobuf.DeviceError, "needs CuPy 14 or newer; CuPy 13.6.0 is installed")


def test_a_cupy_for_a_newer_cuda(cupy, monkeypatch):
    monkeypatch.setattr(cupy, "DRIVER_VERSION", 12040)
    refused(echobuf.DeviceError, r"CuPy is for CUDA 13.2.*supports CUDA 12.4.*Update")


def test_a_cupy_for_other_devices(cupy, monkeypatch):
    monkeypatch.setattr(cupy.cuda.runtime, "is_hip", True)
    refused(echobuf.DeviceError, "CuPy is for AMD.*pip install cupy-cuda13x")


def test_a_cupy_for_an_older_cuda_is_fine(cupy, monkeypatch):
    monkeypatch.setattr(cupy, "RUNTIME_VERSION", 12040)
    with filled() as buffer:
        assert list(drain(buffer)) == expected(KWARGS, 20)


def test_a_cupy_that_cannot_use_the_driver(cupy, monkeypatch):
    def refuse():
        raise fake_cuda.CUDARuntimeError(35, "cudaGetDeviceCount")

    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", refuse)
    refused(echobuf.DeviceError, "CuPy cannot use the driver.*Update the driver")


def test_a_device_that_is_not_there(cupy):
    refused(echobuf.DeviceError, "'cuda:7'; .*'cuda:0', 'cuda:1'", device="cuda:7")


@pytest.mark.parametrize("where", ["module", "handle"])
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("CompileException", "error: no storage class"),
        ("CUDADriverError", "CUDA_ERROR_INVALID_IMAGE"),
        ("RuntimeError", 'Failure finding "libnvrtc.so.13"'),
        ("OSError", "No space left on device"),
    ],
)
def test_kernels_that_cannot_be_compiled(
    cupy, gives_back, monkeypatch, where, kind, text
):
    def error():
        return getattr(cupy, kind, vars(builtins).get(kind))(text)

    class Module(cupy.cuda.function.Module):
        def load(self, code):
            super().load(code)
            if where == "module":
                raise error()

        def get_function(self, name):
            raise error()

    monkeypatch.setattr(cupy.cuda.function, "Module", Module)
    says = f"CuPy 14.2.0 cannot compile.*{text}.*pip install nvidia-cuda-nvrtc"
    refused(echobuf.DeviceError, says, device="cuda:1")
    monkeypatch.undo()


# ---- memory


def test_too_little_device_memory_is_said_before_anything_is_allocated(
    cupy, gives_back
):
    done = fake_cuda.calls("cuMemAlloc_v2"), fake_cuda.calls("cuMemHostAlloc")
    free, _ = fake_cuda.memory_info()
    window = free // 300
    says = rf"needs [\d,]+ bytes.*cuda:0 has {free:,} free.*`window`, which is {window}"
    caught = refused(echobuf.CapacityError, says, window=window)
    assert done == (
        fake_cuda.calls("cuMemAlloc_v2"),
        fake_cuda.calls("cuMemHostAlloc"),
    )
    gives_back()
    del caught


@pytest.mark.parametrize("code", [fake_cuda.OUT_OF_MEMORY, OPERATING_SYSTEM])
def test_pinned_memory_is_refused(cupy, gives_back, code):
    fake_cuda.fail("cuMemHostAlloc", code)
    says = "pinned host memory.*cuMemHostAlloc.*ulimit -l"
    caught = refused(echobuf.CapacityError, says)
    gives_back()
    del caught


def test_device_memory_is_refused_after_all(cupy, gives_back):
    fake_cuda.fail("cuMemAlloc_v2", fake_cuda.OUT_OF_MEMORY)
    says = r"needs [\d,]+ bytes, but cuda:0: cuMemAlloc.*Make `window`, which is 12"
    caught = refused(echobuf.CapacityError, says)
    gives_back()
    del caught


@pytest.mark.parametrize("imported", [True, False])
def test_with_jax_it_is_said_what_jax_takes(cupy, unchanged, monkeypatch, imported):
    if imported:
        monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))
    else:
        monkeypatch.delitem(sys.modules, "jax", raising=False)
    echobuf.warmup("cuda")
    free, _ = fake_cuda.memory_info()
    caught = [refused(echobuf.CapacityError, "free", window=free // 300)]
    fake_cuda.fail("cuMemAlloc_v2", fake_cuda.OUT_OF_MEMORY)
    caught.append(refused(echobuf.CapacityError, "cuMemAlloc"))
    with filled() as buffer:
        for nth in (1, 2, 3):
            fake_cuda.fail("cuMemAlloc_v2", fake_cuda.OUT_OF_MEMORY, nth)
        with pytest.raises(echobuf.CapacityError) as no_room:
            buffer.next_batch(timeout=WAIT_S)
        assert list(drain(buffer)) == expected(KWARGS, 20)
    says = "JAX takes 75 % of a device.*XLA_PYTHON_CLIENT_PREALLOCATE=false"
    for error in [*caught, no_room]:
        assert (re.search(says, str(error.value)) is not None) is imported


SETTING_UP = [
    "cuMemAlloc_v2",
    "cuMemHostAlloc",
    "cuStreamCreate",
    "cuEventCreate",
    "cuMemGetInfo_v2",
    "cuDevicePrimaryCtxRetain",
]


@pytest.mark.parametrize("symbol", SETTING_UP)
def test_whatever_is_refused_on_the_way_all_is_given_back(cupy, unchanged, symbol):
    device = "cuda:1"  # which nothing has used
    said = []
    for nth in itertools.count(1):
        fake_cuda.fail(symbol, 46, nth)
        try:
            buffer = make(device=device)
        except echobuf.DeviceError as error:
            said.append(str(error))
            continue
        break
    fake_cuda.fail(symbol, 0, 0)
    assert said
    assert all("`device` is 'cuda:1'" in text for text in said)
    with buffer:
        buffer.put_batch(stack(range(8)))
        buffer.close()
        assert list(drain(buffer)) == expected(KWARGS, 8)


def test_a_batch_that_has_no_room(cupy, unchanged):
    with filled() as buffer:
        for nth in (1, 2, 3):  # the pool tries again after it has given all back
            fake_cuda.fail("cuMemAlloc_v2", fake_cuda.OUT_OF_MEMORY, nth)
        says = r"a batch of [\d,]+ bytes does not fit.*`batch_size`, which is 4"
        with pytest.raises(echobuf.CapacityError, match=says):
            buffer.next_batch(timeout=WAIT_S)
        assert list(drain(buffer)) == expected(KWARGS, 20)


@pytest.mark.parametrize(
    ("code", "error", "says"),
    [
        (2, echobuf.CapacityError, "does not fit the memory of cuda:0"),
        (709, echobuf.DeviceError, "context is gone.*restart the process"),
        (ILLEGAL_ADDRESS, echobuf.DeviceError, "nothing on the device can be relied"),
    ],
)
def test_an_allocator_of_the_callers_that_refuses(cupy, unchanged, code, error, says):
    def refuse(size):
        raise fake_cuda.CUDARuntimeError(code, "cudaMallocAsync")

    stream = cupy.cuda.Stream(non_blocking=True)
    with filled() as buffer:
        cupy.cuda.set_allocator(refuse)
        for given in (None, stream):
            with pytest.raises(error, match=says):
                buffer.next_batch(timeout=WAIT_S, stream=given)
        cupy.cuda.set_allocator(None)
        assert list(drain(buffer)) == expected(KWARGS, 20)


# ---- what goes wrong later


def test_a_launch_that_is_refused(cupy, unchanged):
    with filled() as buffer:
        buffer.next_batch(timeout=WAIT_S)
        fake_cuda.fail("cuLaunchKernel", ILLEGAL_ADDRESS)
        says = "cuLaunchKernel.*CUDA_ERROR_ILLEGAL_ADDRESS.*restart the process"
        with pytest.raises(echobuf.DeviceError, match=says):
            buffer.next_batch(timeout=WAIT_S)
        for _ in range(2):
            with pytest.raises(echobuf.DeviceError, match=says):
                buffer.next_batch(timeout=WAIT_S)


def test_an_upload_that_is_refused(cupy, unchanged):
    fake_cuda.fail("cuMemcpyHtoDAsync_v2", ILLEGAL_ADDRESS)
    with make(device="cuda") as buffer:
        with pytest.raises(echobuf.DeviceError, match="cuMemcpyHtoDAsync"):
            buffer.put_batch(stack(range(100)), timeout=WAIT_S)
        with pytest.raises(echobuf.DeviceError, match="cuMemcpyHtoDAsync"):
            buffer.next_batch(timeout=WAIT_S)


def release_context(device):
    """Destroy the context of the device, as a reset does, though others retain it."""
    while fake_cuda.LIBRARY.cuDevicePrimaryCtxRelease_v2(device) == 0:
        pass
    fake_cuda.world.contexts.pop(device)


def test_a_buffer_after_its_context_is_gone(cupy):
    says = "context is gone: somebody has reset the device.*restart the process"
    with make(device="cuda") as buffer:
        buffer.put_batch(stack(range(12)))
        batch = buffer.next_batch(timeout=WAIT_S)
        assert ids_of(host(batch)) == expected(KWARGS, 12)[0]
        release_context(0)
        for _ in range(2):
            with pytest.raises(echobuf.DeviceError, match=says):
                buffer.next_batch(batch, timeout=WAIT_S)
        with pytest.raises(echobuf.DeviceError, match=says):
            buffer.put_batch(stack(range(12, 100)), timeout=WAIT_S)
    refused(echobuf.DeviceError, says)
    del buffer, batch
    gc.collect()
    fake_cuda.stop()  # it reports what was left in the context; that is no matter here
    fake_cuda.start()


# ---- arrays that are on a device already


class CudaTensor:
    """As torch's refuse to be read by NumPy."""

    shape = (37,)

    def __array__(self, *arguments, **kwargs):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


@pytest.mark.parametrize("call", ["put", "put_batch"])
def test_arrays_that_do_not_say_where_they_are_cannot_be_put(cupy, unchanged, call):
    spec = echobuf.Field((3,), np.float64)
    with echobuf.EchoBuffer(spec, batch_size=2, window=2, device="cuda") as buffer:
        with pytest.raises(echobuf.SpecError, match=r"NumPy cannot read.*Convert it"):
            getattr(buffer, call)(CudaTensor())
        assert buffer.stats().fresh == 0
