"""Devices of the simulated driver, while one is on."""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import Any

from echobuf import _core
from echobuf.cuda import nvrtc
from echobuf.cuda.device import Stages
from echobuf.cuda.kernels import NAMES, options, source
from echobuf.cuda.simulated_arrays import SimulatedArrays, SimulatedTensors
from echobuf.cuda.simulated_driver import driver, library_path
from echobuf.cuda.stages import StageSource
from echobuf.errors import DeviceError
from echobuf.tree import Spec

PTX_ARCHITECTURE = "sm_90"  # that compiled kernels are for
_PATIENCE_S = 5.0  # with calls that are in flight at the end


class SimulatedDevice:
    """One device; see `echobuf.cuda.device.Device`.

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
        self._default = driver().make_stream(ordinal)
        self._current = threading.local()

    def add(self, buffer: _core.DeviceBuffer) -> None:
        """The buffer ends with the device."""
        self._buffers.add(buffer)

    def kernels(self) -> dict[str, int]:
        """The kernels: their host builds, or their PTX."""
        if self._kernels == "ptx":
            text = nvrtc.ptx_of(source(), PTX_ARCHITECTURE, options())
            return {name: driver().ptx_function(text, name, name) for name in NAMES}
        return {name: driver().function(name) for name in NAMES}

    def stages(self, source: StageSource) -> Stages:
        """The kernels of stages: host builds that carry out any of them, or PTX."""
        if self._kernels == "ptx" and source.text:
            return self._compiled_stages(source)
        make = driver().function("echobuf_stage_make")
        summing = driver().function("echobuf_stage_sum")
        return Stages([(make, summing if sums else 0) for _, sums in source.entries])

    def _compiled_stages(self, source: StageSource) -> Stages:
        text = nvrtc.ptx_of(source.text, PTX_ARCHITECTURE, source.options)
        handles = []
        for make, summing in source.entries:
            made = driver().ptx_function(text, make, "echobuf_stage_make")
            summed = (
                0
                if summing is None
                else driver().ptx_function(text, summing, "echobuf_stage_sum")
            )
            handles.append((made, summed))
        return Stages(handles)

    def arrays(self, spec: Spec, lead: tuple[int, ...]) -> SimulatedArrays:
        """NumPy arrays in the device's memory."""
        return SimulatedArrays(self, spec, lead)

    def tensors(
        self, spec: Spec, lead: tuple[int, ...], dtypes: list[Any]
    ) -> SimulatedTensors:
        """Tensors on the CPU, in the device's memory."""
        return SimulatedTensors(self, spec, lead, dtypes)

    def current_stream(self) -> int:
        """The stream that this thread works on."""
        stack = getattr(self._current, "stack", None)
        return stack[-1] if stack else self._default

    def push_stream(self, stream: int) -> None:
        """This thread works on `stream` from now on."""
        stack = self._current.__dict__.setdefault("stack", [])
        stack.append(stream)

    def pop_stream(self) -> None:
        """This thread works on the stream before again."""
        self._current.stack.pop()

    def end_buffers(self) -> None:
        """Ends the buffers, which may work on any stream until then."""
        self.gone = (
            f"`device` was {self.name!r} of a simulated driver that has ended; use the "
            "buffer inside the `with simulated_cuda()` that it was made in."
        )
        buffers = list(self._buffers)
        for buffer in buffers:
            buffer.release()
        patience = time.monotonic() + _PATIENCE_S
        while not all(buffer.gone() for buffer in buffers):
            if time.monotonic() > patience:
                break  # a call that does not leave: what it holds is reported
            time.sleep(0.001)

    def leave(self) -> None:
        """Gives back what the driver would call a leak."""
        driver().destroy_stream(self.ordinal, self._default)
        del self.core


class Stream:
    """A stream of a simulated device: as `stream=`, or the current one in a `with`."""

    def __init__(self, device: SimulatedDevice) -> None:
        self._device = device
        self.device_id = device.ordinal
        self._handle = driver().make_stream(device.ordinal)

    @property
    def ptr(self) -> int:
        """Its handle.

        Raises:
            DeviceError: it was closed, or its simulation has ended.
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
        """Ends it once its work is done; the end of the simulation does so, too."""
        handle, self._handle = self._handle, 0
        if handle:
            driver().destroy_stream(self._device.ordinal, handle)
