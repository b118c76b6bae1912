"""A real CUDA device for tests that look into batches with NumPy.

Batches are drawn into pinned host memory, which the device addresses, too; then they
are waited for, and handed out as arrays of NumPy, or tensors of torch on the CPU.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from echobuf.cuda.arrays import Arrays, Count, Shapes
from echobuf.cuda.cupy_device import CupyDevice, current_ordinal
from echobuf.cuda.device import set_opener
from echobuf.cuda.simulated import SimulatedArrays, SimulatedTensors
from echobuf.spec import Spec


class PinnedArrays(SimulatedArrays):
    """`Arrays` of NumPy in pinned host memory."""

    _device: PinnedDevice

    def empty(
        self, stream: int, shapes: Shapes | None = None
    ) -> tuple[list[Any], list[int]]:
        shapes = self._shapes if shapes is None else shapes
        leaves = list(map(self._pinned, shapes, self._dtypes))
        return leaves, [leaf.ctypes.data for leaf in leaves]

    def _pinned(self, shape: tuple[int, ...], dtype: Any) -> Any:
        import cupy

        size = int(np.prod(shape)) * dtype.itemsize
        memory = cupy.cuda.alloc_pinned_memory(max(size, 1))
        return np.ndarray(shape, dtype, np.frombuffer(memory, np.uint8))

    def check(self, leaves: list[Any]) -> tuple[list[int], bool]:
        """No addresses: the caller's arrays are no pinned memory."""
        self._out.check(leaves)
        return [], False

    def finish(
        self, leaves: list[Any], drawn: list[Any], count: Count, stream: int
    ) -> None:
        from echobuf.cuda.cupy_arrays import cupy, use_stream

        with use_stream(self._device.ordinal, stream):
            cupy.cuda.get_current_stream().synchronize()
        Arrays.finish(self, leaves, drawn, count, stream)


class PinnedTensors(SimulatedTensors, PinnedArrays):
    """`Arrays` of torch on the CPU, in pinned host memory."""

    def empty(
        self, stream: int, shapes: Shapes | None = None
    ) -> tuple[list[Any], list[int]]:
        return SimulatedTensors.empty(self, stream, shapes)


class PinnedDevice(CupyDevice):
    """A CUDA device whose batches lie in pinned host memory."""

    def arrays(self, spec: Spec, lead: tuple[int, ...]) -> Any:
        return PinnedArrays(self, spec, lead)

    def tensors(self, spec: Spec, lead: tuple[int, ...], dtypes: list[Any]) -> Any:
        return PinnedTensors(self, spec, lead, dtypes)

    def current_stream(self) -> int:
        import cupy

        return int(cupy.cuda.get_current_stream(self.ordinal).ptr)


_opened: dict[int, PinnedDevice] = {}  # for all tests: opening one takes long
_opening = threading.Lock()


def _open(ordinal: int | None) -> PinnedDevice:
    number = current_ordinal() if ordinal is None else ordinal
    with _opening:
        if number not in _opened:
            _opened[number] = PinnedDevice(number)
        return _opened[number]


@contextlib.contextmanager
def real_device() -> Iterator[None]:
    """Make `device="cuda"` a real device with batches in pinned host memory."""
    set_opener(_open)
    try:
        yield
    finally:
        set_opener(None)


@contextlib.contextmanager
def stand_in() -> Iterator[None]:
    """The same with the stand-in for CuPy, over the simulated driver."""
    from on_fake_cupy import fake_cupy_in_place

    with fake_cupy_in_place(), real_device():
        try:
            yield
        finally:
            _opened.clear()
