"""Graphs of the simulated driver, and draws that replay them."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from echobuf.buffer import EchoBuffer
from echobuf.cuda.simulated_driver import library_path
from helpers import WAIT_S

_POINTER = ctypes.c_void_p


@contextlib.contextmanager
def context(device: int = 0) -> Iterator[ctypes.CDLL]:
    calls = ctypes.CDLL(str(library_path()))
    held, old = _POINTER(), _POINTER()
    assert calls.cuDevicePrimaryCtxRetain(ctypes.byref(held), device) == 0
    assert calls.cuCtxPushCurrent_v2(held) == 0
    try:
        yield calls
    finally:
        assert calls.cuCtxPopCurrent_v2(ctypes.byref(old)) == 0
        assert calls.cuDevicePrimaryCtxRelease_v2(device) == 0


class Graph:
    """The work enqueued inside its context, to be launched any number of times."""

    def __init__(self, stream: Any) -> None:
        self._stream = _POINTER(stream.ptr)
        self._graph, self._executable = _POINTER(), _POINTER()

    def __enter__(self) -> Graph:
        with context() as calls:
            assert calls.cuStreamBeginCapture_v2(self._stream, 0) == 0
        return self

    def __exit__(self, *error: object) -> None:
        with context() as calls:
            graph = ctypes.byref(self._graph)
            assert calls.cuStreamEndCapture(self._stream, graph) == 0
            made = calls.cuGraphInstantiateWithFlags(
                ctypes.byref(self._executable), self._graph, ctypes.c_ulonglong(0)
            )
            assert made == 0

    def launch(self, stream: Any) -> None:
        """Launches it and waits, as reading the batch on the host needs."""
        with context() as calls:
            assert calls.cuGraphLaunch(self._executable, _POINTER(stream.ptr)) == 0
            assert calls.cuStreamSynchronize(_POINTER(stream.ptr)) == 0

    def close(self) -> None:
        with context() as calls:
            calls.cuGraphExecDestroy(self._executable)
            calls.cuGraphDestroy(self._graph)


def captured(buffer: EchoBuffer, stream: Any, out: Any) -> Graph:
    """A graph of a draw, which consumes nothing."""
    graph = Graph(stream)
    with graph:
        assert buffer.next_batch(out=out, stream=stream) is out
    assert buffer.stats().served == 0
    return graph


def draws(
    buffer: EchoBuffer,
    out: Any,
    streams: Sequence[Any],
    copied: Callable[[Any], Any],
    eager: int = 0,
) -> list[Any]:
    """Copies of all batches to the end, most of them replays of a graph.

    Args:
        buffer: puts come from a thread.
        out: memory that the graph draws into.
        streams: that take turns; the graph is captured on the first.
        copied: makes a copy of a batch.
        eager: every so-manieth draw, the first of all, is one without a graph.
    """
    graph = captured(buffer, streams[0], out)
    batches = []
    with contextlib.suppress(StopIteration):
        for turn in itertools.count():
            stream = streams[turn % len(streams)]
            if eager and turn % eager == 0:
                batch = buffer.next_batch(timeout=WAIT_S, stream=stream)
                batches.append(copied(batch))
                continue
            buffer.before_replay(stream=stream, timeout=WAIT_S)
            graph.launch(stream)
            batches.append(copied(out))
    rest = list(map(copied, buffer))
    graph.close()
    assert eager or len(rest) <= 1
    return batches + rest
