"""A device as the tests see it: the simulated one, or a real one with CuPy."""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

import numpy as np
import optree

from echobuf.testing import Simulation

_SPIN = """
extern "C" __global__ void spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}
"""
_CROWD = 64 << 20  # bytes; about a millisecond of the fastest bus


class Place(Protocol):
    """The part of a device that the tests use."""

    simulated: bool

    def stream(self) -> Any:
        """A new stream; current within `with`, and `ptr` is its handle."""

    def spin(self, stream: Any, ms: float) -> None:
        """Lets what is queued on `stream` from now on wait."""

    def crowd_bus(self) -> None:
        """Lets uploads that are queued from now on wait."""

    def host(self, tree: Any) -> Any:
        """Copies of a batch that is valid on the current stream, as NumPy arrays."""


class Simulated:
    """The simulated driver, whose streams have delays of their own."""

    simulated = True

    def __init__(self, simulation: Simulation) -> None:
        self.stream = simulation.stream

    def spin(self, stream: Any, ms: float) -> None:
        pass

    def crowd_bus(self) -> None:
        pass

    def host(self, tree: Any) -> Any:
        return optree.tree_map(np.array, tree)


class Cuda:
    """The current device, with CuPy."""

    simulated = False

    def __init__(self) -> None:
        import cupy

        self.cupy = cupy
        self.device = cupy.cuda.Device()
        self._spin = cupy.RawKernel(_SPIN, "spin")
        self._cycles_per_ms = int(self.device.attributes.get("ClockRate", 1_700_000))
        self._crowd: tuple[Any, Any, Any] | None = None

    def stream(self) -> Any:
        return self.cupy.cuda.Stream(non_blocking=True)

    def spin(self, stream: Any, ms: float) -> None:
        with stream:
            self._spin((1,), (1,), (np.int64(ms * self._cycles_per_ms),))

    def crowd_bus(self) -> None:
        if self._crowd is None:
            host = self.cupy.cuda.alloc_pinned_memory(_CROWD)
            self._crowd = host, self.cupy.empty(_CROWD, np.uint8), self.stream()
            self.cupy.cuda.Device().synchronize()
        host, there, stream = self._crowd
        for _ in range(4):
            there.data.copy_from_host_async(ctypes.c_void_p(host.ptr), _CROWD, stream)

    def host(self, tree: Any) -> Any:
        return optree.tree_map(self._to_host, tree)

    def _to_host(self, leaf: Any) -> Any:
        # A tensor of torch's has no `get`; it waits for torch's current stream.
        return leaf.get() if hasattr(leaf, "get") else leaf.cpu().numpy()

    def free(self) -> int:
        """Bytes of the device that nobody has, once the pools have given back."""
        import gc

        gc.collect()
        self.device.synchronize()
        self.cupy.get_default_memory_pool().free_all_blocks()
        self.cupy.get_default_pinned_memory_pool().free_all_blocks()
        return int(self.cupy.cuda.runtime.memGetInfo()[0])
