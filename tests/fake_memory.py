"""CuPy's memory over the simulated driver: a part of its stand-in.

As in CuPy 14.2, a pool keeps what is freed for the stream that it was allocated on, and
gives it out again at once.
"""

from __future__ import annotations

import ctypes
import gc
import os
import threading

import fake_cuda
from fake_cuda import (
    LIBRARY,
    OUT_OF_MEMORY,
    PER_THREAD,
    CUDARuntimeError,
    call,
    context,
    get_current_stream,
    get_device,
    is_here,
)


def pinned_memory(size):
    """Pinned host memory as a buffer, freed with it."""
    owner = PinnedMemory(size)
    memory = (ctypes.c_ubyte * size).from_address(owner.ptr)
    memory.owner = owner
    return memory


class PinnedMemory:
    def __init__(self, size):
        address = ctypes.c_void_p()
        with context(get_device()):
            call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(size), 0)
        self._world = fake_cuda.world
        self._device = get_device()
        self.ptr = address.value

    def __del__(self):
        if is_here("PinnedMemory.__del__", self._world):
            with context(self._device):
                LIBRARY.cuMemFreeHost(ctypes.c_void_p(self.ptr))


class OutOfMemoryError(MemoryError):
    pass


class Memory:
    """Memory that the driver has allocated, freed with the object."""

    def __init__(self, size):
        self.size = size
        self.device_id = get_device()
        self.ptr = 0
        self._world = fake_cuda.world
        if size:
            address = ctypes.c_uint64()
            with context(self.device_id):
                call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
            self.ptr = address.value

    def __del__(self):
        if (
            self.ptr
            and self._world is fake_cuda.world
            and os.getpid() == fake_cuda.world.pid
        ):
            LIBRARY.echobuf_simulated_free(ctypes.c_uint64(self.ptr))


class UnownedMemory:
    def __init__(self, ptr, size, owner, device_id=-1):
        self.ptr = ptr
        self.size = size
        self.device_id = device_id
        self._owner = owner


class PooledMemory:
    def __init__(self, memory, arena):
        self.ptr = memory.ptr
        self.size = memory.size
        self.device_id = memory.device_id
        self._memory = memory
        self._arena = arena
        self._world = fake_cuda.world

    def __del__(self):
        if self._world is fake_cuda.world:
            with fake_cuda.world.lock:
                fake_cuda.world.free.setdefault(self._arena, []).append(self._memory)


class MemoryPointer:
    def __init__(self, mem, offset):
        assert mem.ptr != 0 or offset == 0
        self.mem = mem
        self.ptr = mem.ptr + offset
        self.device_id = mem.device_id

    def __add__(self, offset):
        return MemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)


def alloc(size):
    if fake_cuda.world.allocator is not None:
        return fake_cuda.world.allocator(size)
    return MemoryPointer(_from_pool(-(-size // 512) * 512), 0)


def set_allocator(allocator):
    fake_cuda.world.allocator = allocator


def _from_pool(size):
    if size == 0:
        return Memory(0)
    stream = get_current_stream().ptr
    of_thread = threading.get_ident() if stream == PER_THREAD else 0
    arena = get_device(), stream, of_thread
    with fake_cuda.world.lock:
        blocks = fake_cuda.world.free.get(arena, [])
        fitting = [block for block in blocks if block.size >= size]
        if fitting:
            block = min(fitting, key=lambda block: block.size)
            blocks.remove(block)
            return PooledMemory(block, arena)
    return PooledMemory(_allocate(size), arena)


def _allocate(size):
    for attempt in (lambda: None, free_all_blocks, gc.collect):
        attempt()
        try:
            return Memory(size)
        except CUDARuntimeError as error:
            if error.status != OUT_OF_MEMORY:
                raise
    raise OutOfMemoryError(f"Out of memory allocating {size:,} bytes")


def free_all_blocks():
    with fake_cuda.world.lock:
        blocks = fake_cuda.world.free
        fake_cuda.world.free = {}
    del blocks
