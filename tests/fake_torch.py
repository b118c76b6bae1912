"""A stand-in for torch with CUDA, over the simulated driver.

What echobuf meets of torch 2.13: tensors that a caching allocator owns, which gives
memory out again to the stream that it was allocated on; `ExternalStream(0)`, which is
no default stream but one of torch's own; `with torch.cuda.stream(...)`, which makes a
stream and its device current, and brings both back. Torch's and CuPy's current streams
have nothing to do with each other; their current device is the same.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

import fake_cuda
import fake_cupy

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

    def is_conj(self):
        return False

    def is_neg(self):
        return False

    def is_contiguous(self):
        return self.array.flags.c_contiguous

    def data_ptr(self):
        return self.array.data.ptr

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


def empty(shape, *, dtype, device):
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
