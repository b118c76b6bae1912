"""The simulated CUDA driver, as far as Python calls it: docs/simulated.md."""

from __future__ import annotations

import ctypes
import functools
import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeAlias

from echobuf.errors import DeviceError

_NON_BLOCKING = 1
_OUT_OF_MEMORY = 2

Runs: TypeAlias = Iterable[tuple[int, int, int]]
"""Copies: the address to copy to, the address to copy from, the bytes."""


def library_path() -> Path:
    """Return the path of the library of the simulated driver."""
    return Path(__file__).parent.parent / "libechobuf_simulated_cuda.so"


@functools.cache
def driver() -> Driver:
    """Load the library, once, and return its driver.

    Raises:
        DeviceError: the library is missing.
    """
    return Driver(library_path())


class Driver:
    """The simulated driver's calls; a process has one driver at a time."""

    def __init__(self, path: Path) -> None:
        try:
            self._calls = ctypes.CDLL(str(path))
        except OSError as error:
            raise DeviceError(
                f"the simulated driver cannot be loaded: {error}. It is part of the "
                "package; install echobuf again."
            ) from None
        calls = self._calls
        size, handle = ctypes.c_size_t, ctypes.c_void_p
        number, address = ctypes.c_int, ctypes.c_uint64
        declarations = {
            "echobuf_simulated_start": (
                None,
                [ctypes.c_uint64, number, size, size, ctypes.c_uint],
            ),
            "echobuf_simulated_stop": (None, []),
            "echobuf_simulated_reports": (size, []),
            "echobuf_simulated_report": (size, [size, ctypes.c_char_p, size]),
            "echobuf_simulated_function": (handle, [ctypes.c_char_p]),
            "echobuf_simulated_lend": (
                number,
                [number, size, ctypes.POINTER(address)],
            ),
            "echobuf_simulated_free": (number, [address]),
            "echobuf_simulated_free_on": (number, [address, handle]),
            "echobuf_simulated_wait": (number, [handle]),
            "echobuf_ptx_error": (ctypes.c_char_p, []),
            "echobuf_ptx_kernel": (
                handle,
                [ctypes.c_char_p, address, ctypes.c_char_p, handle, address],
            ),
            "cuInit": (number, [ctypes.c_uint]),
            "cuDevicePrimaryCtxRetain": (number, [ctypes.POINTER(handle), number]),
            "cuDevicePrimaryCtxRelease_v2": (number, [number]),
            "cuCtxPushCurrent_v2": (number, [handle]),
            "cuCtxPopCurrent_v2": (number, [ctypes.POINTER(handle)]),
            "cuStreamCreate": (number, [ctypes.POINTER(handle), ctypes.c_uint]),
            "cuStreamDestroy_v2": (number, [handle]),
            "cuStreamWaitEvent": (number, [handle, handle, ctypes.c_uint]),
            "cuEventCreate": (number, [ctypes.POINTER(handle), ctypes.c_uint]),
            "cuEventDestroy_v2": (number, [handle]),
            "cuEventRecord": (number, [handle, handle]),
            "cuMemcpyHtoDAsync_v2": (number, [address, handle, size, handle]),
            "cuMemcpyDtoHAsync_v2": (number, [handle, address, size, handle]),
            "cuMemcpyDtoDAsync_v2": (number, [address, address, size, handle]),
        }
        for name, (result, arguments) in declarations.items():
            function = getattr(calls, name)
            function.restype, function.argtypes = result, arguments

    def start(
        self, seed: int, devices: int, bytes_per_device: int, largest_delay_us: int
    ) -> None:
        """Start a fresh driver."""
        self._calls.echobuf_simulated_start(
            seed, devices, bytes_per_device, bytes_per_device, largest_delay_us
        )
        if code := self._calls.cuInit(0):
            raise DeviceError(
                f"the simulated driver cannot start: error {code}. It has run in the "
                "parent of this process, and does not survive a fork: use the start "
                "method 'spawn'."
            )

    def stop(self) -> list[str]:
        """Stop the driver, and return its reports of errors."""
        self._calls.echobuf_simulated_stop()
        return self.reports()

    def reports(self) -> list[str]:
        """Return the reports of errors so far."""
        return [
            self._report(index)
            for index in range(self._calls.echobuf_simulated_reports())
        ]

    def _report(self, index: int) -> str:
        size = self._calls.echobuf_simulated_report(index, None, 0) + 1
        text = ctypes.create_string_buffer(size)
        self._calls.echobuf_simulated_report(index, text, size)
        return text.value.decode()

    def function(self, name: str) -> int:
        """Return the handle of the host build of a kernel of the package."""
        handle = self._calls.echobuf_simulated_function(name.encode())
        assert handle, name
        return int(handle)

    def ptx_function(
        self, text: str, name: str, host: str, most_instructions: int
    ) -> int:
        """Return the handle of a kernel of a PTX text.

        Args:
            text: the PTX.
            name: of the kernel.
            host: the name of its host build, whose arguments it must take.
            most_instructions: of the warps of a launch; then it ends with a report.

        Raises:
            DeviceError: the PTX machine refuses it.
        """
        content = text.encode()
        handle = self._calls.echobuf_ptx_kernel(
            content,
            len(content),
            name.encode(),
            self.function(host),
            most_instructions,
        )
        if not handle:
            error: bytes = self._calls.echobuf_ptx_error()
            raise DeviceError(f"the PTX machine refuses {name}: {error.decode()}")
        return int(handle)

    def lend(self, device: int, size: int) -> int:
        """Allocate device memory that outlives the driver; return its address.

        Raises:
            MemoryError: `size` bytes are not free.
        """
        address = ctypes.c_uint64()
        code = self._calls.echobuf_simulated_lend(device, size, ctypes.byref(address))
        if code == _OUT_OF_MEMORY:
            raise MemoryError(f"the simulated device has not {size:,} bytes free")
        self._check("echobuf_simulated_lend", code)
        return address.value

    def free(self, address: int) -> None:
        """Free memory of `lend` once all work is done."""
        self._calls.echobuf_simulated_free(address)

    def free_on(self, address: int, stream: int) -> None:
        """Free memory of `lend` in the order of a stream, which reports races."""
        self._calls.echobuf_simulated_free_on(address, stream)

    def wait_for_all(self) -> bool:
        """Wait for the work in all streams, ordering nothing after it.

        Returns:
            False if the driver has stopped.
        """
        return int(self._calls.echobuf_simulated_wait(None)) == 0

    @contextmanager
    def _context(self, device: int) -> Iterator[None]:
        context, old = ctypes.c_void_p(), ctypes.c_void_p()
        code = self._calls.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        self._check("cuDevicePrimaryCtxRetain", code)
        self._check("cuCtxPushCurrent", self._calls.cuCtxPushCurrent_v2(context))
        try:
            yield
        finally:
            self._calls.cuCtxPopCurrent_v2(ctypes.byref(old))
            self._calls.cuDevicePrimaryCtxRelease_v2(device)

    def make_stream(self, device: int) -> int:
        """Return a new stream of a device that the caller keeps retained."""
        stream = ctypes.c_void_p()
        with self._context(device):
            code = self._calls.cuStreamCreate(ctypes.byref(stream), _NON_BLOCKING)
            self._check("cuStreamCreate", code)
        return int(stream.value or 0)

    def destroy_stream(self, device: int, stream: int) -> None:
        """End a stream, once its work is done."""
        with self._context(device):
            self._check("cuStreamDestroy", self._calls.cuStreamDestroy_v2(stream))

    def write(self, device: int, stream: int, runs: Runs) -> None:
        """Copy pageable memory to a device, on a stream: runs are (to, from, bytes)."""
        with self._context(device):
            for to, source, size in runs:
                code = self._calls.cuMemcpyHtoDAsync_v2(to, source, size, stream)
                self._check("cuMemcpyHtoDAsync", code)

    def read(self, device: int, stream: int, runs: Runs) -> None:
        """Copy a device's memory to pageable memory, and wait for the copies."""
        with self._context(device):
            for to, source, size in runs:
                code = self._calls.cuMemcpyDtoHAsync_v2(to, source, size, stream)
                self._check("cuMemcpyDtoHAsync", code)

    def copy(self, device: int, stream: int, runs: Runs) -> None:
        """Copy memory of a device within the device, on a stream."""
        with self._context(device):
            for to, source, size in runs:
                code = self._calls.cuMemcpyDtoDAsync_v2(to, source, size, stream)
                self._check("cuMemcpyDtoDAsync", code)

    def join(self, device: int, stream: int, other: int) -> None:
        """Let a stream wait for what another stream of the device has so far."""
        calls, event = self._calls, ctypes.c_void_p()
        with self._context(device):
            self._check("cuEventCreate", calls.cuEventCreate(ctypes.byref(event), 0))
            try:
                self._check("cuEventRecord", calls.cuEventRecord(event, other))
                code = calls.cuStreamWaitEvent(stream, event, 0)
                self._check("cuStreamWaitEvent", code)
            finally:
                calls.cuEventDestroy_v2(event)

    def _check(self, call: str, code: int) -> None:
        if code:
            raise DeviceError(f"the simulated driver refused {call}: error {code}.")


class Lender(Protocol):
    """The part of a simulated device that its memory and its arrays use.

    Attributes:
        ordinal: its number.
        name: such as "cuda:0".
        gone: the reason why it can no longer be used, or None.
    """

    ordinal: int
    name: str
    gone: str | None

    def current_stream(self) -> int:
        """Return the stream that the calling thread works on."""


class Block:
    """Device memory that NumPy can view; freed when its last view is collected."""

    def __init__(self, owner: Lender, size: int) -> None:
        self.owner = owner
        self.address = driver().lend(owner.ordinal, max(size, 1))
        weakref.finalize(self, _free, os.getpid(), self.address).atexit = False
        self.__array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (self.address, False),
            "version": 3,
        }


def _free(process: int, address: int) -> None:
    """Free memory, in the process that allocated it."""
    if process == os.getpid():
        driver().free(address)
