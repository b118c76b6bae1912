"""The machine that executes the PTX of kernels on the CPU: docs/simulated.md."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Sequence
from typing import NamedTuple

from echobuf.cuda.simulated_driver import library_path
from echobuf.errors import DeviceError

_PARSE, _HOST, _FAULT = 1, 2, 3
_MOST_INSTRUCTIONS = 1 << 32
_AXES, _MOST_EXTENT = 3, 1 << 32


class Counts(NamedTuple):
    """The work of a launch: instructions that its warps ran, and its global memory.

    A request is an instruction of a warp, a sector 32 bytes, each counted once a
    request.
    """

    instructions: int
    load_requests: int
    load_sectors: int
    load_bytes: int
    store_requests: int
    store_sectors: int
    store_bytes: int


class PtxError(Exception):
    """A PTX text, a call or an instruction that the machine refuses."""


class PtxParseError(PtxError):
    """A text that is no PTX, or has something that the machine does not know."""


class PtxHostError(PtxError):
    """A launch, a copy or a free that a driver would refuse."""


class PtxFaultError(PtxError):
    """An instruction without a defined result.

    Attributes:
        kind: "race", "out of bounds", "misaligned", "unwritten memory" and so on.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.kind = text.partition(":")[0]


_ERRORS: dict[int, type[PtxError]] = {
    _PARSE: PtxParseError,
    _HOST: PtxHostError,
    _FAULT: PtxFaultError,
}


@functools.cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(library_path()))
    except OSError as error:
        raise DeviceError(
            f"the PTX machine cannot be loaded: {error}. It is part of the package; "
            "install echobuf again."
        ) from None
    handle, number, text = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_char_p
    code = ctypes.c_int
    declarations = {
        "echobuf_ptx_machine": (handle, [number]),
        "echobuf_ptx_end": (None, [handle]),
        "echobuf_ptx_error": (text, []),
        "echobuf_ptx_allocate": (number, [handle, number]),
        "echobuf_ptx_free": (code, [handle, number]),
        "echobuf_ptx_write": (code, [handle, number, text, number]),
        "echobuf_ptx_read": (code, [handle, number, handle, number]),
        "echobuf_ptx_load": (handle, [handle, text, number]),
        "echobuf_ptx_launch": (
            code,
            [handle, handle, text, handle, handle, handle, number, handle],
        ),
    }
    for name, (result, arguments) in declarations.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _error(code: int) -> PtxError:
    text: bytes = _library().echobuf_ptx_error()
    error: PtxError = _ERRORS[code](text.decode())
    return error


def _check(code: int) -> None:
    if code:
        raise _error(code)


def _extent(name: str, extent: Sequence[int]) -> list[int]:
    if not 1 <= len(extent) <= _AXES or not all(0 <= n < _MOST_EXTENT for n in extent):
        raise PtxHostError(
            f"`{name}` is {list(extent)}; it must have one to three numbers from 0 to "
            f"{_MOST_EXTENT - 1}."
        )
    return [*extent, *[1] * (_AXES - len(extent))]


class Machine:
    """Device memory, modules and launches of one simulated device.

    Warps run in random order between barriers. The first instruction without a defined
    result ends a launch with a `PtxFaultError`: an access outside an allocation, after
    it was freed or misaligned; a read of memory or of a register that was never
    written; two accesses to one byte that no barrier orders, one of them a write; a
    barrier that not all threads come to.
    """

    def __init__(self, seed: int = 0) -> None:
        """Make a machine without memory.

        Args:
            seed: decides the order of blocks, warps and parted threads.
        """
        self._calls = _library()
        self._machine = self._calls.echobuf_ptx_machine(seed)
        weakref.finalize(self, self._calls.echobuf_ptx_end, self._machine)

    def allocate(self, size: int) -> int:
        """Return the address of `size` bytes that nothing has written yet."""
        address: int = self._calls.echobuf_ptx_allocate(self._machine, size)
        if address == 0:
            raise _error(_HOST)
        return address

    def free(self, address: int) -> None:
        """Free an allocation."""
        _check(self._calls.echobuf_ptx_free(self._machine, address))

    def write(self, address: int, content: bytes) -> None:
        """Copy bytes into device memory."""
        _check(
            self._calls.echobuf_ptx_write(self._machine, address, content, len(content))
        )

    def read(self, address: int, size: int) -> bytes:
        """Copy bytes from device memory, all of which must have been written."""
        content = ctypes.create_string_buffer(size)
        _check(self._calls.echobuf_ptx_read(self._machine, address, content, size))
        return content.raw

    def load(self, text: str) -> Module:
        """Parse PTX, and give its variables memory.

        Raises:
            PtxParseError: with the line of what the machine does not know.
        """
        content = text.encode()
        module = self._calls.echobuf_ptx_load(self._machine, content, len(content))
        if not module:
            raise _error(_PARSE)
        return Module(self, module)

    def launch(
        self,
        module: int,
        kernel: str,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[bytes],
        most_instructions: int,
    ) -> Counts:
        """Run a kernel of a loaded module: see `Module.launch`."""
        extents = [*_extent("grid", grid), *_extent("block", block)]
        count = len(arguments)
        counts = (ctypes.c_uint64 * 7)(most_instructions)
        _check(
            self._calls.echobuf_ptx_launch(
                self._machine,
                module,
                kernel.encode(),
                (ctypes.c_uint32 * 6)(*extents),
                (ctypes.c_char_p * count)(*arguments),
                (ctypes.c_uint64 * count)(*map(len, arguments)),
                count,
                counts,
            )
        )
        return Counts(*counts)


class Module:
    """A loaded PTX text, which lives as long as its machine."""

    def __init__(self, machine: Machine, handle: int) -> None:
        self._machine = machine
        self._handle = handle

    def launch(
        self,
        kernel: str,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[bytes],
        most_instructions: int = _MOST_INSTRUCTIONS,
    ) -> Counts:
        """Run a kernel to its end, and count what its warps do.

        Args:
            kernel: the name of its entry point.
            grid: extents in blocks.
            block: extents in threads.
            arguments: the bytes of each argument.
            most_instructions: how many the warps may run.

        Raises:
            PtxHostError: the arguments or extents are not those of the kernel.
            PtxFaultError: an instruction has no defined result.
        """
        return self._machine.launch(
            self._handle, kernel, grid, block, arguments, most_instructions
        )
