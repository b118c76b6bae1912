"""A draw in a CUDA graph, captured and launched by the driver's own calls."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator
from typing import Any

from echobuf import EchoBuffer
from echobuf.cuda.simulated_driver import library_path
from place import Place
from smoke import SETTINGS, SPEC, Batch, drawn, examples, fed, main, on_host, same

_POINTER = ctypes.c_void_p
_TIMEOUT_S = 20.0


class Driver:
    """The driver's library, with the primary context of device 0 current."""

    def __init__(self, place: Place) -> None:
        name = str(library_path()) if place.simulated else "libcuda.so.1"
        self._calls = ctypes.CDLL(name)

    def call(self, name: str, *arguments: Any) -> None:
        """Make a call; an error code of the driver's is a `RuntimeError`."""
        if code := getattr(self._calls, name)(*arguments):
            raise RuntimeError(f"{name}: error {code} of the CUDA driver")

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        context, old = _POINTER(), _POINTER()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2", ctypes.byref(old))
            self.call("cuDevicePrimaryCtxRelease_v2", 0)


class Graph:
    """The work that is enqueued on a stream within `captured()`."""

    def __init__(self, driver: Driver, stream: Any) -> None:
        self._call = driver.call
        self._stream = _POINTER(stream.ptr)
        self._graph, self._executable = _POINTER(), _POINTER()

    @contextlib.contextmanager
    def captured(self) -> Iterator[None]:
        self._call("cuStreamBeginCapture_v2", self._stream, 0)
        yield
        self._call("cuStreamEndCapture", self._stream, ctypes.byref(self._graph))
        executable, flags = ctypes.byref(self._executable), ctypes.c_ulonglong(0)
        self._call("cuGraphInstantiateWithFlags", executable, self._graph, flags)

    def launch(self) -> None:
        """Launch it and wait for it."""
        self._call("cuGraphLaunch", self._executable, self._stream)
        self._call("cuStreamSynchronize", self._stream)

    def close(self) -> None:
        self._call("cuGraphExecDestroy", self._executable)
        self._call("cuGraphDestroy", self._graph)


def replayed(place: Place, driver: Driver) -> list[Batch]:
    """Return the batches that replays of a captured draw serve, and the rest."""
    stream = place.stream()
    batches: list[Batch] = []
    with EchoBuffer(SPEC, device="cuda", **SETTINGS) as buffer:
        window = {n: leaf[: SETTINGS["window"]] for n, leaf in examples().items()}
        buffer.put_batch(window)
        out = buffer.next_batch(stream=stream)  # arrays that stay where they are
        buffer.reset(0)
        graph = Graph(driver, stream)
        with graph.captured():
            buffer.next_batch(out=out, stream=stream)
        producer = fed(buffer)
        with contextlib.suppress(StopIteration):
            while True:
                buffer.before_replay(stream=stream, timeout=_TIMEOUT_S)
                graph.launch()
                batches += on_host(place, "cuda", [out])
        if not batches:
            raise AssertionError("no replay served a batch")
        batches += on_host(place, "cuda", buffer)
        producer.join()
        graph.close()
    return batches


def smoke(place: Place) -> str:
    driver = Driver(place)
    with driver.current():
        got = replayed(place, driver)
    return same(got, drawn(place, "cpu"))


if __name__ == "__main__":
    sys.exit(main(__doc__, smoke))
