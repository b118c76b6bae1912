"""The launches of compiled kernels on the simulated driver, and their work."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from echobuf.cuda.simulated_driver import library_path


@dataclass(frozen=True)
class Traffic:
    """Accesses of a launch to global memory.

    Attributes:
        requests: instructions of warps.
        sectors: of 32 bytes, each counted once a request.
        bytes: of all threads.
    """

    requests: int
    sectors: int
    bytes: int


@dataclass(frozen=True)
class Launch:
    """A launch that has ended.

    Attributes:
        kernel: its name.
        blocks: how many.
        threads: of a block.
        instructions: that its warps ran.
        loads: from global memory.
        stores: to global memory.
    """

    kernel: str
    blocks: int
    threads: int
    instructions: int
    loads: Traffic
    stores: Traffic

    @classmethod
    def of(cls, line: str) -> Launch:
        """Return the launch of a line of `echobuf_ptx_launches`."""
        kernel, *numbers = line.split()
        blocks, threads, instructions, *traffic = map(int, numbers)
        loads, stores = Traffic(*traffic[:3]), Traffic(*traffic[3:])
        return cls(kernel, blocks, threads, instructions, loads, stores)


def take_launches() -> list[Launch]:
    """Return the launches since the last call."""
    launches = ctypes.CDLL(str(library_path())).echobuf_ptx_launches
    launches.restype = ctypes.c_char_p
    return [Launch.of(line) for line in launches().decode().splitlines()]
