"""A stand-in for torch with CUDA, over the simulated driver.

What echobuf meets of torch 2.13: tensors that a caching allocator owns, which gives
memory out again to the stream that it was allocated on; `ExternalStream(0)`, which is
no default stream but one of torch's own; `with torch.cuda.stream(...)`, which makes a
stream and its device current, and brings both back. Torch's and CuPy's current streams
have nothing to do with each other; their current device is the same.
"""

from __future__ import annotations

import math
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

import fake_cuda
import fake_cupy
import fake_memory

__version__ = "2.13.0+cu130"
strided = "torch.strided"


class dtype:
    def __init__(self, name, carrier=None):
        self.name = name
        self.numpy = np.dtype(carrier or name)

    def __str__(self):
        return f"torch.{self.name}"


for _name in (
    "bool",
    "uint8",
    "int16",
    "int32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
):
    globals()[_name] = dtype(_name)
bfloat16 = dtype("bfloat16", "int16")


class device:
    def __init__(self, kind, index=None):
        self.type, self.index = kind, index

    def __eq__(self, other):
        return (self.type, self.index) == (other.type, other.index)

    def __hash__(self):
        return hash((self.type, self.index))

    def __str__(self):
        return f"{self.type}:{self.index}"


class Tensor:
    requires_grad = False
    layout = strided
    is_cuda = True

    def __init__(self, array, kind):
        self.array = array
        self.dtype = kind
        self.device = device("cuda", array.data.device_id)

    shape = property(lambda self: self.array.shape)

    @property
    def __cuda_array_interface__(self):
        return {**self.array.__cuda_array_interface__, "version": 2, "stream": None}

    def data_ptr(self):
        return self.array.data.ptr

    def detach(self):
        return self

    def is_contiguous(self):
        return self.array.flags.c_contiguous

    def contiguous(self):
        with _cupys_stream(cuda.current_stream(self.device)):
            return Tensor(fake_cupy.ascontiguousarray(self.array), self.dtype)

    def element_size(self):
        return self.array.dtype.itemsize

    def stride(self):
        if self.layout != strided:
            raise RuntimeError("sparse tensors do not have strides")
        return tuple(step // self.element_size() for step in self.array.strides)

    def __getitem__(self, index):
        return Tensor(self.array[index], self.dtype)

    def __setitem__(self, index, source):
        with _cupys_stream(cuda.current_stream(self.device)):
            self.array[index] = source.array

    def get(self):
        with _cupys_stream(cuda.current_stream(self.device)):
            return self.array.get()


class HostTensor:
    """A tensor in pinned host memory."""

    _copied_on = None

    def __init__(self, shape, kind):
        size = max(math.prod(shape) * kind.numpy.itemsize, 1)
        memory = fake_memory.pinned_memory(size)
        count = math.prod(shape)
        self.array = np.frombuffer(memory, kind.numpy, count).reshape(shape)
        self.dtype = kind

    def copy_(self, source, *, non_blocking):
        assert non_blocking
        array = source.array
        assert array.flags.c_contiguous
        stream = cuda.current_stream(source.device)
        handle = fake_cuda.BaseStream(stream.cuda_stream, stream.device.index)
        address = self.array.ctypes.data
        array.data.copy_to_host_async(address, array.nbytes, handle)
        self._copied_on = handle
        return self

    def __del__(self):
        if self._copied_on is not None:  # torch's allocator does not wait: it defers
            self._copied_on.synchronize()

    def detach(self):
        return self

    cpu = detach

    def is_floating_point(self):
        return "float" in self.dtype.name

    def element_size(self):
        return self.array.dtype.itemsize

    def float(self):
        made = HostTensor(self.array.shape, globals()["float32"])
        if self.dtype is bfloat16:
            words = self.array.view(np.uint16).astype(np.uint32) << 16
            made.array[...] = words.view(np.float32)
        else:
            made.array[...] = self.array
        return made

    def __array__(self, dtype=None, copy=None):
        if self.dtype is bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.array


def empty(shape, *, dtype, device=None, pin_memory=False):
    if pin_memory:
        return HostTensor(shape, dtype)
    current = cuda.current_stream(device)
    if device.index in cuda.refuses:
        raise cuda.refuses[device.index]
    with _cupys_stream(current):
        return Tensor(fake_cupy.empty(shape, dtype.numpy), dtype)


def as_tensor(leaf, *, device):
    if isinstance(leaf, Tensor):
        return leaf
    with fake_cuda.Device(device.index):
        array = fake_cupy.asarray(leaf)
        return Tensor(array, globals()[array.dtype.name])


@contextmanager
def _cupys_stream(stream):
    """The allocator of the stand-in for CuPy is torch's here, too."""
    with (
        fake_cuda.Device(stream.device.index),
        fake_cuda.BaseStream(stream.cuda_stream, stream.device.index),
    ):
        yield


# ---- torch.cuda


class Stream:
    def __init__(self, device, handle):
        self.device = device
        self.cuda_stream = handle


class Cuda:
    """`torch.cuda`."""

    class OutOfMemoryError(RuntimeError):
        pass

    class AcceleratorError(RuntimeError):
        pass

    def __init__(self):
        self.available = True
        self.refuses = {}
        self.owned = []
        self._local = threading.local()

    def is_available(self):
        return self.available

    class Event:
        def record(self, stream):
            index = stream.device.index
            with fake_cuda.Device(index):
                self._event = fake_cuda.Event(disable_timing=True)
                fake_cuda.BaseStream(stream.cuda_stream, index).record(self._event)

        def synchronize(self):
            self._event.synchronize()

    def is_initialized(self):
        return True

    def _current(self):
        return self._local.__dict__.setdefault("streams", {})

    def default_stream(self, where):
        return Stream(where, 0)

    def current_stream(self, where):
        index = where if isinstance(where, int) else where.index
        return self._current().get(index) or Stream(device("cuda", index), 0)

    def new_stream(self, where):
        with fake_cuda.Device(where.index):
            self.owned.append(fake_cuda.Stream(non_blocking=True))
        return Stream(where, self.owned[-1].ptr)

    def ExternalStream(self, handle, where):
        return Stream(where, handle) if handle else self.new_stream(where)

    @contextmanager
    def stream(self, stream):
        index = stream.device.index
        before = self._current().get(index)
        with fake_cuda.Device(index):
            self._current()[index] = stream
            try:
                yield
            finally:
                self._current()[index] = before

    def forget(self):
        self.owned.clear()
        self._local = threading.local()
        self.refuses = {}
        self.available = True


cuda = Cuda()
parts = SimpleNamespace(Stream=Stream)
