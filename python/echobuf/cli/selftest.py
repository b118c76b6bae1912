"""The self-test of `echobuf doctor`: the main promises, checked by real use."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echobuf import EchoBuffer, Field, _core
from echobuf.cuda.device import LIBRARY
from echobuf.testing import simulated_cuda

__all__ = [
    "CHECKS",
    "Check",
    "CheckError",
    "check_device",
    "check_order",
    "check_resume",
    "check_use",
    "checked_ids",
    "make_records",
]

_WORDS = 512  # of a record: 4 KiB
_WINDOW = 2048
_BATCH = 128
_PRODUCERS = 4
_RUN_S = 2.0  # time for which the producers of one check put
_TIMEOUT_S = 10.0  # for a single call, so that a hang is reported as a failure
_ORDERED = 20_000  # fresh examples of the checks of the order

_Words = NDArray[np.uint64]
_SPEC = {
    "id": Field((), np.uint64),
    "words": Field((_WORDS,), np.uint64),
    "sum": Field((), np.uint64),
}


class CheckError(Exception):
    """A broken promise that a check found; the message gives the values seen."""


@dataclass(frozen=True)
class Check:
    """One check of the self-test.

    Attributes:
        title: The promise checked.
        run: Runs the check; returns its measured values, or raises `CheckError`.
    """

    title: str
    run: Callable[[], str]


def check_use(factor: float) -> str:
    """Check exact use with several producers: each example is served `factor` times.

    Args:
        factor: A fixed factor; with a fractional one, its floor or ceiling.

    Returns:
        The throughput.

    Raises:
        CheckError: A record is damaged, lost, or was served too often or too seldom.
    """
    begin = time.perf_counter()
    with EchoBuffer(_SPEC, batch_size=_BATCH, window=_WINDOW, factor=factor) as buffer:
        producers = _Producers(buffer)
        served = [checked_ids(batch) for batch in _batches(buffer)]
        put = producers.join()
    elapsed = time.perf_counter() - begin
    ids, counts = np.unique(np.concatenate(served), return_counts=True)
    if not np.array_equal(ids, np.sort(put)):
        raise CheckError(f"{len(put)} examples put, {len(ids)} came back")
    low, high = int(np.floor(factor)), int(np.ceil(factor))
    if counts.min() < low or counts.max() > high:
        raise CheckError(f"served {counts.min()} to {counts.max()} times each")
    total = int(counts.sum())
    gigabytes = total * (_WORDS + 2) * 8 / 1e9
    rates = f"{total / elapsed:,.0f} examples/s, {gigabytes / elapsed:.2f} GB/s"
    return f"{rates}, each one checked"


class _Producers:
    """Threads that put records for a while, and then close the buffer."""

    def __init__(self, buffer: EchoBuffer) -> None:
        self._buffer = buffer
        self._until = time.perf_counter() + _RUN_S
        self._put: list[_Words] = []
        self._errors: list[Exception] = []
        self._threads = [
            threading.Thread(target=self._produce, args=(i,), daemon=True)
            for i in range(_PRODUCERS)
        ]
        for thread in self._threads:
            thread.start()
        threading.Thread(target=self._close, daemon=True).start()

    def _produce(self, number: int) -> None:
        rng = np.random.default_rng(number)
        start = number << 32  # each producer has its own range of ids
        try:
            while time.perf_counter() < self._until:
                ids = np.arange(start, start + rng.integers(1, 300), dtype=np.uint64)
                self._buffer.put_batch(make_records(ids), timeout=_TIMEOUT_S)
                self._put.append(ids)
                start += len(ids)
        except Exception as error:
            self._errors.append(error)

    def _close(self) -> None:
        for thread in self._threads:
            thread.join()
        self._buffer.close()

    def join(self) -> _Words:
        """Return the ids of all records put; raise the first producer's error."""
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]
        return np.concatenate(self._put)


def make_records(ids: _Words) -> dict[str, _Words]:
    """Make records with these ids, and a checksum each."""
    step = (ids * np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1)
    words = step[:, None] * np.arange(1, _WORDS + 1, dtype=np.uint64)
    return {"id": ids, "words": words, "sum": words.sum(axis=1, dtype=np.uint64)}


def checked_ids(batch: dict[str, _Words]) -> _Words:
    """Return the ids of a batch; raise `CheckError` if a record is damaged."""
    expected = make_records(batch["id"])
    if any(not np.array_equal(batch[name], expected[name]) for name in expected):
        raise CheckError("a record came back damaged")
    return batch["id"]


def _batches(buffer: EchoBuffer) -> Iterator[Any]:
    while True:
        try:
            yield buffer.next_batch(timeout=_TIMEOUT_S)
        except StopIteration:
            return


def _ordered(
    seed: int, batch_size: int = _BATCH, device: str = "cpu", window: int = _WINDOW
) -> EchoBuffer:
    return EchoBuffer(
        Field((), np.int64),
        batch_size=batch_size,
        window=window,
        factor=3,
        seed=seed,
        device=device,
    )


def _feed(buffer: EchoBuffer, first: int, end: int = _ORDERED) -> None:
    def put() -> None:
        buffer.put_batch(np.arange(first, end), timeout=_TIMEOUT_S)
        buffer.close()

    threading.Thread(target=put, daemon=True).start()


def _order(seed: int, batch_size: int) -> NDArray[np.int64]:
    with _ordered(seed, batch_size) as buffer:
        _feed(buffer, 0)
        return np.concatenate(list(_batches(buffer)))


def check_order() -> str:
    """Check that the order depends on the seed, and not on timing or batch size.

    Raises:
        CheckError: The order depends on the batch size, or not on the seed.
    """
    one, again, other = _order(1, _BATCH), _order(1, _BATCH // 2), _order(2, _BATCH)
    if not np.array_equal(one, again):
        raise CheckError("two runs with the same seed differ")
    if np.array_equal(one, other):
        raise CheckError("two runs with different seeds are equal")
    return f"{len(one):,} draws, twice"


def check_resume() -> str:
    """Check that a buffer which resumes from a state serves the same further batches.

    Raises:
        CheckError: It serves other batches.
    """
    with _ordered(seed=3) as first:
        _feed(first, 0)
        batches = _batches(first)
        for _ in range(_ORDERED // _BATCH):  # a third of all
            next(batches)
        state = first.state_dict()
        expected = np.concatenate(list(batches))
    with _ordered(seed=3) as second:
        second.load_state_dict(state)
        _feed(second, state["fresh_offset"])
        resumed = np.concatenate(list(_batches(second)))
    if not np.array_equal(resumed, expected):
        raise CheckError("the batches after resuming differ")
    return f"{len(resumed):,} draws, from fresh example {state['fresh_offset']:,} on"


def check_device() -> str:
    """Check that a CUDA device serves the same as the CPU.

    The device is simulated where there is no driver or no CuPy.

    Raises:
        CheckError: It serves other batches.
        DeviceError: There are driver and CuPy, but the device cannot be used.
    """
    if _has_driver() and importlib.util.find_spec("cupy") is not None:
        return f"{_compare_with_device(_ORDERED, _WINDOW):,} draws"
    with simulated_cuda():
        return f"{_compare_with_device(2_000, 64):,} draws, simulated"


def _has_driver() -> bool:
    try:
        _core.load_driver(LIBRARY)
    except _core.CudaError:
        return False
    return True


def _compare_with_device(count: int, window: int) -> int:
    expected, drawn = (_draws(device, count, window) for device in ("cpu", "cuda"))
    if not np.array_equal(drawn, expected):
        raise CheckError("the device serves other batches than the CPU")
    return len(drawn)


def _draws(device: str, count: int, window: int) -> NDArray[np.int64]:
    with _ordered(5, 32, device, window) as buffer:
        _feed(buffer, 0, count)
        return np.concatenate([_on_host(batch) for batch in _batches(buffer)])


def _on_host(batch: Any) -> NDArray[np.int64]:
    get = getattr(batch, "get", None)  # CuPy's
    return np.asarray(batch if get is None else get())


CHECKS = (
    Check("exact use, factor 3", lambda: check_use(3)),
    Check("exact use, factor 2.5", lambda: check_use(2.5)),
    Check("same seed, same order", check_order),
    Check("resume from a state", check_resume),
    Check("a CUDA device as the CPU", check_device),
)
