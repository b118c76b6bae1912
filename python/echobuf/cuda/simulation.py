"""The simulated driver switched on, inside a `with`, and what it reports."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from echobuf import _core
from echobuf.arguments import check_int
from echobuf.cuda.device import UseStream, device_error, set_opener
from echobuf.cuda.simulated import SimulatedDevice, Stream
from echobuf.cuda.simulated_array import SimulatedArray, to_device
from echobuf.cuda.simulated_driver import driver
from echobuf.errors import OptionError

_DEVICES = 2
_BYTES = 1 << 30  # of memory, of each device; and of pinned memory
_LARGEST_DELAY_US = 20
_one_at_a_time = threading.Lock()


class SimulationError(AssertionError):
    """The simulated driver has found something wrong.

    Attributes:
        reports: what, each with the operations and the memory concerned.

    Examples:
        >>> error = echobuf.testing.SimulationError(["a race of two copies"])
        >>> error.reports
        ['a race of two copies']
        >>> isinstance(error, AssertionError)
        True
    """

    def __init__(self, reports: list[str]) -> None:
        super().__init__("the simulated driver reports:\n" + "\n".join(reports))
        self.reports = reports


@contextmanager
def _on_stream(device: SimulatedDevice, stream: int) -> Iterator[None]:
    """Make a stream of a device the thread's current one, inside."""
    device.push_stream(stream)
    try:
        yield
    finally:
        device.pop_stream()


class Simulation:
    """A simulated driver that is on.

    Examples:
        >>> from echobuf.testing import simulated_cuda
        >>> with simulated_cuda() as simulation:
        ...     buffer = EchoBuffer(
        ...         Field((), np.int64), batch_size=2, window=2, factor=1, device="cuda"
        ...     )
        ...     buffer.put_batch(simulation.array(np.arange(2)))
        ...     with simulation.stream():
        ...         print(sorted(buffer.next_batch().tolist()))
        ...     print(simulation.reports)
        [0, 1]
        []
    """

    def __init__(self, kernels: str = "host") -> None:
        self._kernels = kernels
        self._devices: dict[int, SimulatedDevice] = {}
        self._streams: list[Stream] = []
        self._opening = threading.Lock()

    @property
    def reports(self) -> list[str]:
        """Return the faults so far: races, uses after a free, bad addresses."""
        return driver().reports()

    def stream(self, device: int = 0) -> Stream:
        """Return a new stream, to give as `stream=` or to make current with `with`.

        Args:
            device: the number of the device that it is of.
        """
        stream = Stream(self._open(device))
        self._streams.append(stream)
        return stream

    def array(self, values: Any, device: int = 0) -> SimulatedArray:
        """Return an array on a device that only the device can read, to give to `put`.

        Args:
            values: an array, or what NumPy makes one of. They are copied on the
                thread's current stream of the device, like an array of CuPy.
            device: the number of the device that it is on.
        """
        return to_device(self._open(device), np.asarray(values))

    def _open(self, ordinal: int | None) -> SimulatedDevice:
        number = ordinal or 0
        with self._opening:
            if number not in self._devices:
                try:
                    self._devices[number] = SimulatedDevice(number, self._kernels)
                except _core.CudaError as error:
                    raise device_error(f"cuda:{number}", error) from None
            return self._devices[number]

    def _caller_stream(self, ordinal: int | None) -> list[UseStream]:
        device = self._open(ordinal)
        stream = device.current_stream()
        if stream == device.default_stream:
            return []
        return [functools.partial(_on_stream, device, stream)]

    def _end(self) -> list[str]:
        try:
            for device in self._devices.values():
                device.end_buffers()
            for stream in self._streams:
                stream.close()
            for device in self._devices.values():
                device.leave()
        finally:
            reports = driver().stop()
        return reports


@contextmanager
def simulated_cuda(seed: int = 0, kernels: str = "host") -> Iterator[Simulation]:
    """Run `device="cuda"` on a simulated driver with two devices, inside `with`.

    The whole path of a CUDA device runs in this process and on the CPU: pinned staging,
    the upload thread, streams as queues with threads and delays that the seed chooses,
    and the kernels' host builds. Every access to memory that no event orders is
    reported, whatever the timing was; uses after a free, and leaks, too. Batches are
    NumPy views of the simulated device's memory, which are ready when they are handed
    out, and may be kept. Buffers end with the context. It slows draws down greatly.

    Args:
        seed: of the delays, an int from 0 to 2**64 - 1.
        kernels: "host" runs host builds of the kernels; "ptx" compiles the kernels
            with NVRTC and executes their PTX, much more slowly: threads in random
            order, and races among them, misaligned accesses and reads of registers
            that nothing has written are reported, too.

    Yields:
        A `Simulation`.

    Raises:
        SimulationError: at the end, if anything was reported.
        OptionError: `seed` or `kernels` is out of range, or another simulation is on.
        DeviceError: the library of the simulated driver is not there.

    Examples:
        >>> from echobuf.testing import simulated_cuda
        >>> with simulated_cuda():
        ...     loader = EchoLoader(range(8), batch_size=4, factor=1, device="cuda")
        ...     for batch in loader:
        ...         print(sorted(batch.tolist()))
        ...     loader.close()
        [2, 5, 6, 7]
        [0, 1, 3, 4]
    """
    seed = check_int("seed", seed, 0, 2**64 - 1)
    if kernels not in ("host", "ptx"):
        raise OptionError(f'`kernels` is {kernels!r}; it must be "host" or "ptx".')
    if not _one_at_a_time.acquire(blocking=False):
        raise OptionError(
            "`simulated_cuda` is on already; there is one in a process at a time."
        )
    try:
        driver().start(seed, _DEVICES, _BYTES, _LARGEST_DELAY_US)
        simulation, process = Simulation(kernels), os.getpid()
        set_opener(simulation._open, simulation._caller_stream)  # noqa: SLF001 - its own
        try:
            yield simulation
        finally:
            set_opener(None)
            # In a forked child the driver is not there, and ends with the parent's.
            is_here = os.getpid() == process
            reports = simulation._end() if is_here else []  # noqa: SLF001
        if reports:
            raise SimulationError(reports)
    finally:
        _one_at_a_time.release()
