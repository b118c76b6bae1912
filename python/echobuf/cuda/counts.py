"""The work of kernels that the PTX machine has executed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


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
class Counts:
    """The work of a launch.

    Attributes:
        instructions: that its warps ran.
        loads: from global memory.
        stores: to global memory.
    """

    instructions: int
    loads: Traffic
    stores: Traffic

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Counts:
        """Return the counts of seven numbers, as in `cpp/simulated/ptx.hpp`."""
        instructions, *traffic = numbers
        return cls(instructions, Traffic(*traffic[:3]), Traffic(*traffic[3:]))


@dataclass(frozen=True)
class Launch:
    """A launch that has ended.

    Attributes:
        kernel: its name.
        blocks: how many.
        threads: of a block.
        counts: its work.
    """

    kernel: str
    blocks: int
    threads: int
    counts: Counts

    @classmethod
    def of(cls, line: str) -> Launch:
        """Return the launch of a line of `echobuf_ptx_launches`."""
        kernel, *numbers = line.split()
        blocks, threads, *counts = map(int, numbers)
        return cls(kernel, blocks, threads, Counts.of(counts))
