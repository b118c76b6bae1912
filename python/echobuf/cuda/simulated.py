"""Devices of the simulated driver, and their arrays."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from echobuf import _core
from echobuf.cuda import nvrtc
from echobuf.cuda.arrays import Arrays, Count, Shapes, places_of
from echobuf.cuda.codegen import DRAW_KERNELS, StageSource, draw_options, draw_source
from echobuf.cuda.device import LoadedStages
from echobuf.cuda.simulated_driver import Block, Lender, driver, library_path
from echobuf.errors import DeviceError, SpecError
from echobuf.out import Array, OutArrays
from echobuf.resources import members
from echobuf.spec import Spec

PTX_ARCHITECTURE = "sm_90"  # that compiled kernels are for
MOST_INSTRUCTIONS = 1 << 28  # that the warps of a launch run: some minutes
_PATIENCE_S = 5.0  # with calls that are in flight at the end


class SimulatedDevice:
    """A `Device` of the simulated driver.

    Args:
        ordinal: its number.
        kernels: "host" for their host builds, "ptx" for their PTX.

    Attributes:
        default_stream: that a thread works on which has made none its current one.

    Raises:
        CudaError: there is no such device.
    """

    def __init__(self, ordinal: int, kernels: str = "host") -> None:
        self.ordinal = ordinal
        self._kernels = kernels
        self.name = f"cuda:{ordinal}"
        self.pid = os.getpid()
        self.gone: str | None = None
        self.core = _core.Device(str(library_path()), ordinal)
        self._buffers: weakref.WeakSet[_core.DeviceBuffer] = weakref.WeakSet()
        self.default_stream = driver().make_stream(ordinal)
        self._current = threading.local()

    def add(self, buffer: _core.DeviceBuffer) -> None:
        """Register a buffer, which ends with the device."""
        self._buffers.add(buffer)

    def kernels(self) -> dict[str, int]:
        """Return the handles of the kernels: of their host builds, or of their PTX."""
        if self._kernels == "ptx":
            text = nvrtc.ptx_of(draw_source(), PTX_ARCHITECTURE, draw_options())
            return {name: _function(text, name, name) for name in DRAW_KERNELS}
        return {name: driver().function(name) for name in DRAW_KERNELS}

    def stages(self, source: StageSource) -> LoadedStages:
        """Return the kernels of stages: host builds that run any of them, or PTX."""
        if self._kernels == "ptx" and source.text:
            return self._compiled_stages(source)
        make = driver().function("echobuf_stage_make")
        summing = driver().function("echobuf_stage_sum")
        return LoadedStages(
            [(make, summing if sums else 0) for _, sums in source.entries]
        )

    def _compiled_stages(self, source: StageSource) -> LoadedStages:
        text = nvrtc.ptx_of(source.text, PTX_ARCHITECTURE, source.options)
        handles = []
        for make, summing in source.entries:
            made = _function(text, make, "echobuf_stage_make")
            summed = (
                0 if summing is None else _function(text, summing, "echobuf_stage_sum")
            )
            handles.append((made, summed))
        return LoadedStages(handles)

    def arrays(self, spec: Spec, lead: tuple[int, ...]) -> SimulatedArrays:
        """Return NumPy arrays in the device's memory."""
        return SimulatedArrays(self, spec, lead)

    def tensors(
        self, spec: Spec, lead: tuple[int, ...], dtypes: list[Any]
    ) -> SimulatedTensors:
        """Return CPU tensors in the device's memory."""
        return SimulatedTensors(self, spec, lead, dtypes)

    def current_stream(self) -> int:
        """Return the stream that this thread works on."""
        stack = getattr(self._current, "stack", None)
        return stack[-1] if stack else self.default_stream

    def push_stream(self, stream: int) -> None:
        """Make `stream` this thread's current one."""
        stack = self._current.__dict__.setdefault("stack", [])
        stack.append(stream)

    def pop_stream(self) -> None:
        """Make the stream before this thread's current one again."""
        self._current.stack.pop()

    def end_buffers(self) -> None:
        """End the buffers, and wait for the calls that are in flight."""
        self.gone = (
            f"`device` was {self.name!r} of a simulated driver that has ended; use the "
            "buffer inside the `with simulated_cuda()` that it was made in."
        )
        buffers = members(self._buffers)
        for buffer in buffers:
            buffer.release()
        patience = time.monotonic() + _PATIENCE_S
        while not all(buffer.gone() for buffer in buffers):
            if time.monotonic() > patience:
                break  # a call hangs: the driver reports the memory that it holds
            time.sleep(0.001)

    def leave(self) -> None:
        """Free the stream and the context, which the driver would report as leaks."""
        driver().destroy_stream(self.ordinal, self.default_stream)
        del self.core


def _function(text: str, name: str, host: str) -> int:
    return driver().ptx_function(text, name, host, MOST_INSTRUCTIONS)


class Stream:
    """A stream of a simulated device, for `stream=`, or the current one in a `with`."""

    def __init__(self, device: SimulatedDevice) -> None:
        self._device = device
        self.device_id = device.ordinal
        self._handle = driver().make_stream(device.ordinal)

    @property
    def ptr(self) -> int:
        """The handle of the stream.

        Raises:
            DeviceError: the stream was closed, or its simulation has ended.
        """
        if self._handle == 0:
            raise DeviceError("`stream` is a stream of a simulated device that ended.")
        return self._handle

    def __enter__(self) -> Stream:
        self._device.push_stream(self.ptr)
        return self

    def __exit__(self, *error: Any) -> None:
        self._device.pop_stream()

    def close(self) -> None:
        """Destroy the stream once its work is done, as the simulation's end does."""
        handle, self._handle = self._handle, 0
        if handle:
            driver().destroy_stream(self._device.ordinal, handle)


class SimulatedArrays(Arrays):
    """Arrays of NumPy in the memory of a simulated device.

    Args:
        device: whose memory they are in.
        spec: of one example, or of one whole batch.
        lead: extents before the shape that the spec says.
    """

    def __init__(self, device: Lender, spec: Spec, lead: tuple[int, ...]) -> None:
        super().__init__(device.ordinal, spec, lead)
        self._device = device
        self._out = OutArrays(spec, lead)

    def current(self, leaves: Sequence[Any] = ()) -> int:
        """Return the handle of the current stream of this thread."""
        return self._device.current_stream()

    def empty(
        self, stream: int, shapes: Shapes | None = None
    ) -> tuple[list[Any], list[int]]:
        """Return views of one block of device memory, and their addresses."""
        shapes = self._shapes if shapes is None else shapes
        places, size = places_of(shapes, self._dtypes)
        block = Block(self._device, size)
        view = np.asarray(block)
        leaves = [np.ndarray(shape, dtype, view, at) for shape, dtype, at in places]
        return leaves, [block.address + at for _, _, at in places]

    def check(self, leaves: list[Any]) -> tuple[list[int], bool]:
        """Return the addresses of arrays, and whether all are in device memory."""
        arrays = self._out.check(leaves)
        owners = [_owner(array) for array in arrays]
        for owner in owners:
            if owner not in (None, self._device):
                raise SpecError(
                    f"`out` has an array on {owner.name}; it must be on "
                    f"{self._device.name}, where the buffer is."
                )
        are_drawn_into = all(
            owner is self._device and array.flags.carray
            for owner, array in zip(owners, arrays, strict=True)
        )
        return [array.ctypes.data for array in arrays], are_drawn_into

    def copy(
        self, leaves: list[Any], drawn: list[Any], counts: list[int], stream: int
    ) -> None:
        """Copy rows to the caller's arrays."""
        arrays = self._out.check(leaves)
        for array, leaf, rows in zip(arrays, drawn, counts, strict=True):
            np.copyto(array[:rows], leaf[:rows])

    def finish(
        self, leaves: list[Any], drawn: list[Any], count: Count, stream: int
    ) -> None:
        """Wait for the batch, as NumPy must, and copy it if it was drawn elsewhere.

        The wait orders nothing for the driver's checks. It is not for the stream's
        handle, since that may have ended with the simulation meanwhile.
        """
        if not driver().wait_for_all():
            raise DeviceError(self._device.gone)
        super().finish(leaves, drawn, count, stream)


class SimulatedTensors(SimulatedArrays):
    """Tensors of torch on the CPU, in the memory of a simulated device.

    Args:
        device: whose memory they are in.
        spec: of one example, or of one whole batch.
        lead: extents before the shape that the spec says.
        dtypes: torch's, of the leaves; None where it is the spec's.
    """

    def __init__(
        self,
        device: Lender,
        spec: Spec,
        lead: tuple[int, ...],
        dtypes: list[Any],
    ) -> None:
        super().__init__(device, spec, lead)
        self._torch_dtypes = dtypes

    def empty(
        self, stream: int, shapes: Shapes | None = None
    ) -> tuple[list[Any], list[int]]:
        """Return views of one block of device memory, and their addresses."""
        import torch

        leaves, addresses = super().empty(stream, shapes)
        tensors = []
        for leaf, dtype in zip(leaves, self._torch_dtypes, strict=True):
            if dtype is None:
                tensors.append(torch.from_numpy(leaf))
            else:  # NumPy lacks it: by way of an integer of its size
                carrier = leaf.view(f"i{leaf.dtype.itemsize}")
                tensors.append(torch.from_numpy(carrier).view(dtype))
        return tensors, addresses


def _owner(array: Array) -> Lender | None:
    """Return the simulated device whose memory an array is in; None if it has ended."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, Block) and base.owner.gone is None:
        return base.owner
    return None
