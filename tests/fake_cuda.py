"""CUDA's runtime, and CuPy's streams, over the simulated driver.

What behaves as in CuPy 14.2, as far as echobuf meets it: the current device of a
thread, and its current stream for each device (a `with` brings back the stream of the
`with` around it, not one made current by `use()`).
"""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import warnings
from contextlib import contextmanager

from echobuf.cuda.simulated_driver import driver, library_path

OUT_OF_MEMORY = 2
INVALID_DEVICE = 101
LIBRARY = ctypes.CDLL(str(library_path()))
LEGACY, PER_THREAD = 1, 2


class CUDARuntimeError(RuntimeError):
    def __init__(self, status, call):
        super().__init__(f"{call}: error {status}")
        self.status = status


def call(name, *arguments):
    status = getattr(LIBRARY, name)(*arguments)
    if status:
        raise CUDARuntimeError(status, name)


def fail(symbol, code, nth=1):
    """The `nth` call of `symbol` from now is refused with `code`."""
    LIBRARY.echobuf_simulated_fail(symbol.encode(), nth, code)


def lose(code):
    """The device is lost: from now on calls return `code`, until the next start."""
    LIBRARY.echobuf_simulated_lose(code)


def calls(symbol):
    """How many calls of `symbol` there were."""
    LIBRARY.echobuf_simulated_calls.restype = ctypes.c_size_t
    return LIBRARY.echobuf_simulated_calls(symbol.encode())


@contextmanager
def held(stream):
    """Inside, the stream begins nothing."""
    handle = ctypes.c_void_p(stream.ptr)
    call("echobuf_simulated_hold", handle, 1)
    try:
        yield
    finally:  # or the end of the test would wait for it for ever
        call("echobuf_simulated_hold", handle, 0)


# ---- the runtime


class World:
    """The state of CUDA from one `start` to the next `stop`."""

    def __init__(self):
        self.local = threading.local()
        self.contexts = {}
        self.lock = threading.RLock()
        self.free = {}  # blocks by device and stream
        self.pid = os.getpid()
        self.allocator = None


world = World()


def start(seed=0, devices=2, size=1 << 26):
    global world  # noqa: PLW0603
    driver().start(seed, devices, size, 20)
    world = World()


def stop():
    """Gives all back that is CuPy's; what the driver has found wrong."""
    global world  # noqa: PLW0603
    gc.collect()
    world.local = threading.local()
    world.free = {}
    for device in world.contexts:
        LIBRARY.cuDevicePrimaryCtxRelease_v2(device)
    reports = driver().stop()
    world = World()  # what is kept of the other one is given back no more
    return reports


def device_count():
    count = ctypes.c_int()
    call("cuDeviceGetCount", ctypes.byref(count))
    return count.value


def get_device():
    return getattr(world.local, "device", 0)


def set_device(number):
    if not 0 <= number < device_count():
        raise CUDARuntimeError(INVALID_DEVICE, "cudaSetDevice")
    world.local.device = number


@contextmanager
def context(device):
    """The context of a device, which the runtime retains, for calls of the driver."""
    with world.lock:
        if device not in world.contexts:
            made = ctypes.c_void_p()
            call("cuDevicePrimaryCtxRetain", ctypes.byref(made), device)
            world.contexts[device] = made
    call("cuCtxPushCurrent_v2", world.contexts[device])
    try:
        yield
    finally:
        call("cuCtxPopCurrent_v2", None)


def memory_info(device=None):
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with context(get_device() if device is None else device):
        call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def is_capturing(stream):
    status, number = ctypes.c_int(), ctypes.c_uint64()
    with context(get_device()):
        call(
            "cuStreamGetCaptureInfo",
            ctypes.c_void_p(stream),
            ctypes.byref(status),
            ctypes.byref(number),
        )
    return status.value != 0


class Device:
    compute_capability = "90"

    def __init__(self, number=None):
        self.id = get_device() if number is None else int(number)

    def __enter__(self):
        world.local.__dict__.setdefault("devices", []).append(get_device())
        set_device(self.id)
        return self

    def __exit__(self, *error):
        set_device(world.local.devices.pop())

    def use(self):
        set_device(self.id)


def is_here(what, its_world):
    """Return whether something can be given back; CuPy complains in a forked child."""
    if its_world is not world:
        return False
    if os.getpid() != world.pid:
        os.write(2, f"{what}: CUDA_ERROR_NOT_INITIALIZED\n".encode())
        return False
    return True


# ---- streams


class BaseStream:
    def __init__(self, ptr, device_id):
        self.ptr = ptr
        self.device_id = device_id

    def __cuda_stream__(self):
        return 0, self.ptr

    def _check_device(self):
        if self.device_id not in (-1, get_device()):
            raise RuntimeError("the stream is of another device than the current one")
        return get_device()

    def __enter__(self):
        device = self._check_device()
        world.local.__dict__.setdefault("entered", []).append(device)
        _stack(device).append(self)
        _current()[device] = self
        return self

    def __exit__(self, *error):
        device = world.local.entered.pop()
        _stack(device).pop()
        _current()[device] = _stack(device)[-1]

    def use(self):
        _current()[self._check_device()] = self
        return self

    def synchronize(self):
        device = get_device() if self.device_id == -1 else self.device_id
        with context(device):
            call("cuStreamSynchronize", ctypes.c_void_p(self.ptr))


class Stream(BaseStream):
    null: BaseStream
    ptds: BaseStream

    def __init__(self, null=False, non_blocking=False, ptds=False):
        super().__init__(0 if null else PER_THREAD, -1)
        if null or ptds:
            return
        made = ctypes.c_void_p()
        with context(get_device()):
            call("cuStreamCreate", ctypes.byref(made), int(non_blocking))
        super().__init__(made.value, get_device())
        self._world = world

    def __del__(self):
        if getattr(self, "_world", None) is world and os.getpid() == world.pid:
            with context(self.device_id):
                LIBRARY.cuStreamDestroy_v2(ctypes.c_void_p(self.ptr))

    @classmethod
    def from_external(cls, stream):
        version, handle = stream.__cuda_stream__()
        assert version == 0
        made = cls.__new__(cls)
        BaseStream.__init__(made, handle, get_device())
        made.foreign = stream  # keeps it alive
        return made


class ExternalStream(BaseStream):
    def __init__(self, ptr, device_id=-1):
        warnings.warn("ExternalStream is deprecated.", DeprecationWarning, stacklevel=2)
        super().__init__(ptr, device_id)


Stream.null = Stream(null=True)
Stream.ptds = Stream(ptds=True)


def _current():
    return world.local.__dict__.setdefault("current", {})


def _stack(device):
    stacks = world.local.__dict__.setdefault("stacks", {})
    return stacks.setdefault(device, [Stream.null])


def get_current_stream(device_id=-1):
    device = get_device() if device_id == -1 else device_id
    return _current().get(device, Stream.null)
