"""Device of a benchmark: a CUDA device, or the simulated driver to try the logic."""

from __future__ import annotations

import contextlib
import importlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from echobuf.testing import Simulation, simulated_cuda
from has_gpu import NO_GPU, why_no_gpu

_CHUNK = 256 << 20
_SPIN = """
extern "C" __global__ void spin(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}
"""


class Place:
    """A device as candidates need it.

    Attributes:
        shared: objects that several candidates of a question use.
        about: GPU and driver, for result files. Read before any work: after an
            illegal access the driver answers nothing.
    """

    simulated = False

    def __init__(self) -> None:
        # JAX would take three quarters of the device at its first use.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import cupy

        self.cupy = cupy
        self.shared: dict[str, Any] = {}
        self.about = self._describe()
        self._spin = cupy.RawKernel(_SPIN, "spin")
        rate_khz = cupy.cuda.Device().attributes.get("ClockRate", 1_700_000)
        self._cycles_per_ms = int(rate_khz)

    @property
    def torch(self) -> Any:
        """Return torch, which must have CUDA."""
        torch = importlib.import_module("torch")
        if not torch.cuda.is_available():
            raise ImportError(f"torch {torch.__version__} cannot use CUDA")
        return torch

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Return the result of `make`, called once for all candidates of a question."""
        if name not in self.shared:
            self.shared[name] = make()
        return self.shared[name]

    def forget(self) -> None:
        """Drop the objects that the candidates of a question shared."""
        for value in self.shared.values():
            if hasattr(value, "close"):
                value.close()
        self.shared.clear()
        self.sync()
        self.cupy.get_default_memory_pool().free_all_blocks()
        self.cupy.get_default_pinned_memory_pool().free_all_blocks()

    def sync(self) -> None:
        """Wait for all work on the device."""
        self.cupy.cuda.Device().synchronize()

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array on the device."""
        return self.cupy.empty(shape, dtype)

    def resident(self, array: Any) -> Any:
        """Return a copy on the device of an array on the host."""
        there = self.cupy.empty(array.shape, array.dtype)
        step = max(1, _CHUNK // max(1, array[:1].nbytes))
        for start in range(0, len(array), step):  # `asarray` would pin as much memory
            there[start : start + step].set(array[start : start + step])
        return there

    def tensor(self, array: Any) -> Any:
        """Return a copy on the device of an array on the host, as a tensor of torch."""
        return self.torch.from_dlpack(self.resident(array))

    def to_host(self, leaf: Any) -> Any:
        """Return a copy on the host of a leaf of a batch; untimed."""
        self.sync()
        return leaf.get() if hasattr(leaf, "get") else np.asarray(leaf.cpu())

    def pinned(self, size: int) -> Any:
        """Return bytes of pinned host memory, as an array."""
        memory = self.cupy.cuda.alloc_pinned_memory(size)
        return np.frombuffer(memory, np.uint8, size)

    def upload(self, target: Any, source: Any) -> None:
        """Queue a copy from the host, without waiting if that is pinned memory."""
        target.data.copy_from_host_async(
            source.ctypes.data, target.nbytes, self.cupy.cuda.get_current_stream()
        )

    def copy(self, target: Any, source: Any) -> None:
        """Queue a copy within the device."""
        self.cupy.cuda.runtime.memcpyAsync(
            target.data.ptr,
            source.data.ptr,
            target.nbytes,
            self.cupy.cuda.runtime.memcpyDeviceToDevice,
            self.cupy.cuda.get_current_stream().ptr,
        )

    def timed(self, kind: str, work: Callable[[], Any]) -> tuple[float, Any]:
        """Time `work`, and return the seconds and its result.

        Args:
            kind: "wall": until the device has done it. "host": until it is queued.
                "events": between CUDA events around it. "device": the same behind a
                delay, within which all of it is queued: without the host's time.
            work: what to do.
        """
        self.sync()
        if kind in ("wall", "host"):
            return self._by_clock(kind, work)
        stream = self.cupy.cuda.get_current_stream()
        start, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        if kind == "device":
            self._spin((1,), (1,), (np.int64(10 * self._cycles_per_ms),))
        start.record(stream)
        answer = work()
        end.record(stream)
        end.synchronize()
        return self.cupy.cuda.get_elapsed_time(start, end) / 1e3, answer

    def _by_clock(self, kind: str, work: Callable[[], Any]) -> tuple[float, Any]:
        start = time.perf_counter()
        answer = work()
        queued = time.perf_counter()
        self.sync()
        end = time.perf_counter() if kind == "wall" else queued
        return end - start, answer

    def stream(self) -> Any:
        """Return a new stream, which no other stream waits for."""
        return self.cupy.cuda.Stream(non_blocking=True)

    def _describe(self) -> dict[str, Any]:
        runtime = self.cupy.cuda.runtime
        properties = runtime.getDeviceProperties(runtime.getDevice())
        return {
            "gpu": properties["name"].decode(),
            "gpu_memory_bytes": int(properties["totalGlobalMem"]),
            "driver": _driver(),
            "driver_cuda": int(runtime.driverGetVersion()),
            "runtime_cuda": int(runtime.runtimeGetVersion()),
        }


def _driver() -> str | None:
    """Return the version of the driver's kernel module."""
    with contextlib.suppress(OSError), open("/proc/driver/nvidia/version") as file:
        return file.readline().strip()
    return None


class Simulated(Place):
    """The simulated driver: its times mean nothing, and are marked so."""

    simulated = True

    def __init__(self, simulation: Simulation) -> None:
        self.shared = {}
        self.about = {"gpu": "none: the simulated driver"}
        self._simulation = simulation

    @property
    def torch(self) -> Any:
        raise ImportError("there is no torch on the simulated driver")

    def forget(self) -> None:
        for value in self.shared.values():
            if hasattr(value, "close"):
                value.close()
        self.shared.clear()

    def stream(self) -> Any:
        return self._simulation.stream()

    def sync(self) -> None:
        pass  # batches are ready when they are handed out

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return np.empty(shape, dtype)

    def resident(self, array: Any) -> Any:
        return np.array(array)

    def tensor(self, array: Any) -> Any:
        """Return an array that only the simulated device can read."""
        return self._simulation.array(array)

    def to_host(self, leaf: Any) -> Any:
        return np.array(leaf)

    def pinned(self, size: int) -> Any:
        return np.empty(size, np.uint8)

    def upload(self, target: Any, source: Any) -> None:
        np.copyto(target, source)

    def copy(self, target: Any, source: Any) -> None:
        np.copyto(target, source)

    def timed(self, kind: str, work: Callable[[], Any]) -> tuple[float, Any]:
        return self._by_clock(kind, work)


@contextlib.contextmanager
def open_place(*, simulated: bool) -> Iterator[Place]:
    """Return a place to measure at.

    Raises:
        SystemExit: with code `NO_GPU`, where there is no GPU.
    """
    if simulated:
        with simulated_cuda() as simulation:
            yield Simulated(simulation)
        return
    reason = why_no_gpu()
    if reason is not None:
        print(
            f"{reason}, so nothing is measured; --simulated tries the script on the "
            f"simulated driver. Exit code {NO_GPU}."
        )
        raise SystemExit(NO_GPU)
    yield Place()
