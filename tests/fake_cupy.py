"""A stand-in for CuPy over the simulated driver: what echobuf and its tests call.

It is put in CuPy's place by the fixture `cupy` (cuda_fixtures.py). Arrays lie in the
simulated device's memory, and are read and written by operations of its streams alone.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import weakref
from types import SimpleNamespace

import numpy as np

import fake_cuda
import fake_memory

__version__ = "14.2.0"
DRIVER_VERSION = 13020
RUNTIME_VERSION = 13020

kernels = weakref.WeakSet()  # those whose module is loaded


class ndarray:
    def __init__(self, shape, dtype=np.float64, memptr=None, strides=None):
        self.dtype = np.dtype(dtype)
        self.shape = tuple(shape)
        like = np.empty((0,), self.dtype)
        self.strides = strides or _contiguous_strides(self.shape, like.itemsize)
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize
        self.data = fake_memory.alloc(self.nbytes) if memptr is None else memptr

    size = property(lambda self: math.prod(self.shape))
    ndim = property(lambda self: len(self.shape))
    flags = property(lambda self: SimpleNamespace(c_contiguous=_is_contiguous(self)))
    device = property(lambda self: fake_cuda.Device(self.data.device_id))
    T = property(lambda self: self._view(self._ghost().T))

    def __array__(self, *arguments, **kwargs):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()`."
        )

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "version": 3,
            "strides": self.strides,
            "data": (self.data.ptr, False),
            "stream": fake_cuda.get_current_stream().ptr or fake_cuda.LEGACY,
        }

    def _ghost(self):
        """An array of NumPy's with the same address: never looked into."""
        interface = {
            "data": (self.data.ptr or 1, False),
            "shape": self.shape,
            "strides": self.strides,
            "typestr": f"|V{self.dtype.itemsize}",
            "version": 3,
        }
        return np.asarray(SimpleNamespace(__array_interface__=interface))

    def _view(self, ghost):
        offset = ghost.ctypes.data - self.data.ptr if ghost.size else 0
        return ndarray(ghost.shape, self.dtype, self.data + offset, ghost.strides)

    def view(self, dtype):
        return ndarray(self.shape, dtype, self.data, self.strides)

    def __getitem__(self, index):
        return self._view(self._ghost()[index])

    def __setitem__(self, index, value):
        target = self[index]
        if self.device.id != fake_cuda.get_device():
            raise ValueError("Array device must be same as the current device")
        assert target.shape == value.shape
        for array in (target, value):  # or the kernel that copies would be misaligned
            assert array.size == 0 or array.data.ptr % array.dtype.itemsize == 0
        if not (_is_contiguous(target) and _is_contiguous(value)):
            _load()  # the kernel that copies, the first time
        for to, source, size in _pieces(target, value):
            arguments = ctypes.c_uint64(to), ctypes.c_uint64(source)
            _copy("cuMemcpyDtoDAsync_v2", self.device.id, *arguments, size)

    def get(self):
        """The elements, in the order of the current stream."""
        host = np.empty(self.shape, self.dtype)
        for to, source, size in _pieces(host, self):
            arguments = ctypes.c_void_p(to), ctypes.c_uint64(source)
            _copy("cuMemcpyDtoHAsync_v2", self.device.id, *arguments, size)
        return host


def _copy(name, device, to, source, size):
    stream = fake_cuda.get_current_stream(device).ptr
    with fake_cuda.context(device):
        fake_cuda.call(name, to, source, ctypes.c_size_t(size), ctypes.c_void_p(stream))


def _contiguous_strides(shape, itemsize):
    strides = []
    for extent in reversed(shape):
        strides.insert(0, itemsize)
        itemsize *= max(extent, 1)
    return tuple(strides)


def _is_contiguous(array):
    return array.strides == _contiguous_strides(array.shape, array.dtype.itemsize)


def _pieces(target, source):
    """Addresses and sizes of copies that bring all elements over."""
    if source.size == 0:
        return
    first, second = _address(target), _address(source)
    if _is_contiguous(target) and _is_contiguous(source):
        yield first, second, source.nbytes
        return
    for index in np.ndindex(*source.shape):
        to = sum(i * step for i, step in zip(index, target.strides, strict=True))
        at = sum(i * step for i, step in zip(index, source.strides, strict=True))
        yield first + to, second + at, source.dtype.itemsize


def _address(array):
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


def empty(shape, dtype=np.float64):
    return ndarray(shape, dtype)


def asarray(array):
    if isinstance(array, ndarray):
        return array
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        device = fake_cuda.get_device()
        memory = fake_memory.UnownedMemory(interface["data"][0], 0, array, device)
        pointer = fake_memory.MemoryPointer(memory, 0)
        shape, strides = interface["shape"], interface.get("strides")
        return ndarray(shape, interface["typestr"], pointer, strides)
    made = ndarray(array.shape, array.dtype)
    for to, source, size in _pieces(made, array):
        arguments = ctypes.c_uint64(to), ctypes.c_void_p(source)
        _copy("cuMemcpyHtoDAsync_v2", made.device.id, *arguments, size)
    return made


# ---- kernels


class CompileException(Exception):
    pass


class CUDADriverError(RuntimeError):
    pass


class RawKernel:
    def __init__(self, name):
        LIBRARY = fake_cuda.LIBRARY
        LIBRARY.echobuf_simulated_function.restype = ctypes.c_void_p
        handle = LIBRARY.echobuf_simulated_function(name.encode())
        if not handle:
            raise CUDADriverError("CUDA_ERROR_NOT_FOUND: named symbol not found")
        self.kernel = SimpleNamespace(ptr=handle)
        kernels.add(self)


def _load():
    """Load a module: that is refused as an allocation is while a graph is captured."""
    with fake_cuda.context(fake_cuda.get_device()):
        memory = ctypes.c_uint64()
        fake_cuda.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(1))
        fake_cuda.call("cuMemFree_v2", memory)


class Module:
    """Compiled kernels: functions are host builds, for stages those of any stage."""

    def __init__(self):
        self._pid = os.getpid()

    def __del__(self):
        if self._pid != os.getpid():  # CuPy prints a traceback
            os.write(2, b"Module.__dealloc__: CUDA_ERROR_NOT_INITIALIZED\n")

    def load(self, code):
        _load()
        self._code = code
        self._device = fake_cuda.get_device()

    def get_function(self, name):
        assert fake_cuda.get_device() == self._device
        assert name.encode() in self._code
        if name.startswith("echobuf_stage"):
            name = f"echobuf_stage_{name.rpartition('_')[2]}"
        function = RawKernel(name)
        return SimpleNamespace(ptr=function.kernel.ptr, kept=(function, self))


compiled = []  # sources, in their order


def compile_using_nvrtc(source, options=()):
    assert "-ftz=true" not in options
    compiled.append(source)
    entries = re.findall(r"ECHOBUF_STAGE_(\w+)\((\w+),", source)
    names = [f"{name}_{kind.lower()}" for kind, name in entries]
    names += re.findall(r"^ +(echobuf_\w+)\(const", source, re.MULTILINE)
    return " ".join(names).encode(), {}


cuda = SimpleNamespace(
    Device=fake_cuda.Device,
    ExternalStream=fake_cuda.ExternalStream,
    MemoryPointer=fake_memory.MemoryPointer,
    Stream=fake_cuda.Stream,
    UnownedMemory=fake_memory.UnownedMemory,
    alloc=fake_memory.alloc,
    alloc_pinned_memory=fake_memory.pinned_memory,
    get_current_stream=fake_cuda.get_current_stream,
    set_allocator=fake_memory.set_allocator,
    compiler=SimpleNamespace(
        CompileException=CompileException, compile_using_nvrtc=compile_using_nvrtc
    ),
    function=SimpleNamespace(Module=Module),
    nvrtc=SimpleNamespace(getVersion=lambda: (13, 2)),
    driver=SimpleNamespace(CUDADriverError=CUDADriverError),
    memory=SimpleNamespace(OutOfMemoryError=fake_memory.OutOfMemoryError),
    runtime=SimpleNamespace(
        CUDARuntimeError=fake_cuda.CUDARuntimeError,
        driverGetVersion=lambda: DRIVER_VERSION,
        getDevice=fake_cuda.get_device,
        getDeviceCount=fake_cuda.device_count,
        is_hip=False,
        memGetInfo=fake_cuda.memory_info,
        runtimeGetVersion=lambda: RUNTIME_VERSION,
        setDevice=fake_cuda.set_device,
        streamIsCapturing=fake_cuda.is_capturing,
    ),
)
