"""Batches as CuPy arrays, and drawing into arrays of CuPy and tensors of torch."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import cupy

from echobuf import _core
from echobuf.cuda.arrays import DeviceArrays, Shapes, places_of
from echobuf.cuda.device import OUT_OF_MEMORY, UseStream, device_error, relaxed
from echobuf.device_arrays import is_tensor
from echobuf.errors import OptionError
from echobuf.spec import Spec


@contextmanager
def use_stream(ordinal: int, handle: int) -> Iterator[None]:
    """Make a device and its stream with this handle CuPy's current ones, inside.

    At the end the device and stream before are current again. (The end of CuPy's own
    `with stream:` would restore the stream of the enclosing `with`, not one that the
    caller had made current by `use()`.)
    """
    runtime = cupy.cuda.runtime
    device = runtime.getDevice()
    if device != ordinal:
        runtime.setDevice(ordinal)
    try:
        before = cupy.cuda.get_current_stream()
        _stream_of(handle).use()
        try:
            yield
        finally:
            before.use()
    finally:
        if device != ordinal:
            runtime.setDevice(device)


def _stream_of(handle: int) -> Any:
    """Return CuPy's object for a stream of the current device that it does not own."""
    if handle == 0:
        return cupy.cuda.Stream.null
    return cupy.cuda.Stream.from_external(Handle(handle))


class Handle:
    """A stream of another owner, as `Stream.from_external` takes it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


_DEFAULT_STREAMS = (0, 1, 2)  # handles of the streams that CUDA itself provides


class CupyArrays(DeviceArrays):
    """`Arrays` of CuPy.

    Args:
        device: the core's.
        ordinal: its number.
        spec: of one example, or of one whole batch.
        lead: extents before the shape that the spec says.
    """

    def __init__(
        self, device: _core.Device, ordinal: int, spec: Spec, lead: tuple[int, ...]
    ) -> None:
        super().__init__(ordinal, spec, lead)
        self._device = device
        self._places = places_of(self._shapes, self._dtypes)

    def current(self, leaves: Sequence[Any] = ()) -> int:
        """Return the handle of torch's current stream if a leaf is a tensor, or CuPy's.

        Without leaves it is torch's, too, where CuPy's is a default stream and torch's
        is not.
        """
        if any(map(is_tensor, leaves)):
            return torch_stream(self._ordinal) or 0
        current = int(cupy.cuda.get_current_stream(self._ordinal).ptr)
        if current in _DEFAULT_STREAMS:
            other = torch_stream(self._ordinal)
            if other is not None and other not in _DEFAULT_STREAMS:
                return other
        return current

    def empty(
        self, stream: int, shapes: Shapes | None = None
    ) -> tuple[list[Any], list[int]]:
        """Return views of one block of CuPy's pool, and their addresses."""
        places, size = (
            self._places if shapes is None else places_of(shapes, self._dtypes)
        )
        memory = self._allocate(stream, size)
        base = memory.ptr
        leaves = [
            cupy.ndarray(shape, dtype, memory + offset)
            for shape, dtype, offset in places
        ]
        return leaves, [base + offset for _, _, offset in places]

    def _allocate(self, stream: int, size: int) -> Any:
        # A pool reuses freed memory in the order of the stream that it was allocated
        # on: that must be the stream that the batch is used on.
        runtime = cupy.cuda.runtime
        try:
            if runtime.streamIsCapturing(stream):
                raise _no_array_in_graph()
            with relaxed(self._device):
                if runtime.getDevice() == self._ordinal and (
                    stream == cupy.cuda.get_current_stream().ptr
                ):
                    return cupy.cuda.alloc(size)
                with use_stream(self._ordinal, stream):
                    return cupy.cuda.alloc(size)
        except runtime.CUDARuntimeError as error:
            code, text = error.status, str(error)
            if code == OUT_OF_MEMORY:  # of an allocator that is not a pool
                raise MemoryError(text) from None
            raise device_error(f"cuda:{self._ordinal}", text, code) from error

    def copy_rows(
        self, targets: list[Any], sources: list[Any], counts: list[int], stream: int
    ) -> None:
        """Copy rows of arrays of CuPy and torch, in the order of the stream."""
        with use_stream(self._ordinal, stream), relaxed(self._device):
            # Where an array is strided, CuPy may load a kernel.
            for target, source, count in zip(targets, sources, counts, strict=True):
                cupy.asarray(target)[:count] = cupy.asarray(source)[:count]


def _no_array_in_graph() -> OptionError:
    return OptionError(
        "`out` is None, or not contiguous, and the stream is being captured: replays "
        "would write into an array whose memory may be another's by then. Give "
        "contiguous arrays that live as long as the graph."
    )


def caller_stream() -> list[UseStream]:
    """Return what makes CuPy's current stream another thread's; see `cuda.device`."""
    runtime = cupy.cuda.runtime
    try:
        ordinal = runtime.getDevice()
        stream = cupy.cuda.get_current_stream()
    except runtime.CUDARuntimeError:  # no driver; who opens the device says so
        return []
    if ordinal == 0 and int(stream.ptr) in _DEFAULT_STREAMS:
        return []
    return [functools.partial(_use_owned, ordinal, stream)]


@contextmanager
def _use_owned(ordinal: int, stream: Any) -> Iterator[None]:
    """As `use_stream`, and keep the stream."""
    with use_stream(ordinal, int(stream.ptr)):
        yield


def torch_stream(ordinal: int) -> int | None:
    """Return the handle of torch's current stream; None if torch has not used CUDA."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not getattr(cuda, "is_initialized", bool)():
        return None
    return int(cuda.current_stream(ordinal).cuda_stream)
