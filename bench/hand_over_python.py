"""The Python side of hand_over.py: from one Python thread to another."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from echobuf import EchoBuffer, Field

PERIOD_S = 200e-6


def _send(put: Callable[[int], None], count: int) -> threading.Thread:
    def produce() -> None:
        for _ in range(count):
            time.sleep(PERIOD_S)
            put(time.perf_counter_ns())

    thread = threading.Thread(target=produce)
    thread.start()
    return thread


def _latencies(
    put: Callable[[int], None], take: Callable[[], int], count: int
) -> np.ndarray[Any, Any]:
    sender = _send(put, count)
    got = np.zeros(count)
    for index in range(count):
        sent = take()
        got[index] = time.perf_counter_ns() - sent
    sender.join()
    return got


def _through_echobuf(count: int) -> np.ndarray[Any, Any]:
    spec = {"stamp": Field((), "i8")}
    with EchoBuffer(spec, batch_size=1, window=1, factor=1) as buffer:
        return _latencies(
            lambda stamp: buffer.put({"stamp": np.int64(stamp)}),
            lambda: int(buffer.next_batch()["stamp"][0]),
            count,
        )


def _through_queue(count: int) -> np.ndarray[Any, Any]:
    items: queue.Queue[int] = queue.Queue(64)
    return _latencies(items.put, items.get, count)


def python_latencies(count: int) -> dict[str, Callable[[], np.ndarray[Any, Any]]]:
    """Return the function to run, which returns latencies in nanoseconds."""
    return {
        "EchoBuffer put, next_batch": lambda: _through_echobuf(count),
        "queue.Queue put, get": lambda: _through_queue(count),
    }
