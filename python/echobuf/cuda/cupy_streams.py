"""CuPy's current stream, and another one in its place for a moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cupy


@contextmanager
def use_stream(ordinal: int, handle: int) -> Iterator[None]:
    """Inside, the device and its stream with this handle are CuPy's current ones.

    Afterwards those before are. (Leaving a `with stream:` of CuPy's instead would bring
    back the stream of the `with` around it, not one that the caller had made current
    by `use()`.)
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
    """CuPy's object for a stream of the current device that somebody else owns."""
    if handle == 0:
        return cupy.cuda.Stream.null
    return cupy.cuda.Stream.from_external(_Handle(handle))


class _Handle:
    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle
