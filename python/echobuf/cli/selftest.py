"""The self-test of `echobuf doctor`: the main promises, checked by real use."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from echobuf import EchoBuffer, Field, _core
from echobuf.cuda.device import LIBRARY
from echobuf.testing import simulated_cuda

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


class Check(NamedTuple):
    """A promise, and the function that checks it.

    It returns its measured values, or raises `CheckError`.
    """

    title: str
    run: Callable[[], str]


def check_use(factor: float) -> str:
    """Check exact use with several producers: each example is served `factor` times.

    With a fractional factor it is its floor or ceiling. Returns the throughput.
    """
    begin = time.perf_counter()
    with EchoBuffer(_SPEC, batch_size=_BATCH, window=_WINDOW, factor=factor) as buffer:
        put: list[_Words] = []
        errors: list[BaseException] = []
        threading.Thread(
            target=_produce, args=(buffer, put, errors), daemon=True
        ).start()
        served = [checked_ids(batch) for batch in _batches(buffer)]
    if errors:
        raise errors[0]
    elapsed = time.perf_counter() - begin
    ids, counts = np.unique(np.concatenate(served), return_counts=True)
    known = np.concatenate(put)
    if not np.array_equal(ids, np.sort(known)):
        raise CheckError(f"{len(known)} examples put, {len(ids)} came back")
    low, high = int(np.floor(factor)), int(np.ceil(factor))
    if counts.min() < low or counts.max() > high:
        raise CheckError(f"served {counts.min()} to {counts.max()} times each")
    total = int(counts.sum())
    gigabytes = total * (_WORDS + 2) * 8 / 1e9
    rates = f"{total / elapsed:,.0f} examples/s, {gigabytes / elapsed:.2f} GB/s"
    return f"{rates}, each one checked"


def _produce(
    buffer: EchoBuffer, put: list[_Words], errors: list[BaseException]
) -> None:
    """Put records on several threads for a while, and then close the buffer."""
    until = time.perf_counter() + _RUN_S

    def produce(number: int) -> None:
        rng = np.random.default_rng(number)
        start = number << 32  # each producer has its own range of ids
        while time.perf_counter() < until:
            ids = np.arange(start, start + rng.integers(1, 300), dtype=np.uint64)
            buffer.put_batch(make_records(ids), timeout=_TIMEOUT_S)
            put.append(ids)
            start += len(ids)

    with ThreadPoolExecutor(_PRODUCERS) as threads:
        done = [threads.submit(produce, number) for number in range(_PRODUCERS)]
    errors += [error for each in done if (error := each.exception())]
    buffer.close()


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


def _draws(buffer: EchoBuffer, first: int = 0, end: int = _ORDERED) -> Iterator[Any]:
    """Feed a buffer on a thread, and yield its batches on the host."""

    def put() -> None:
        buffer.put_batch(np.arange(first, end), timeout=_TIMEOUT_S)
        buffer.close()

    threading.Thread(target=put, daemon=True).start()
    for batch in _batches(buffer):
        get = getattr(batch, "get", None)  # CuPy's
        yield np.asarray(batch if get is None else get())


def check_order() -> str:
    """Check that the order depends on the seed, and not on timing or batch size."""

    def order(seed: int, batch_size: int) -> NDArray[np.int64]:
        with _ordered(seed, batch_size) as buffer:
            return np.concatenate(list(_draws(buffer)))

    one, again, other = order(1, _BATCH), order(1, _BATCH // 2), order(2, _BATCH)
    if not np.array_equal(one, again):
        raise CheckError("two runs with the same seed differ")
    if np.array_equal(one, other):
        raise CheckError("two runs with different seeds are equal")
    return f"{len(one):,} draws, twice"


def check_resume() -> str:
    """Check that a buffer which resumes from a state serves the same batches."""
    with _ordered(seed=3) as first:
        batches = _draws(first)
        for _ in range(_ORDERED // _BATCH):  # a third of all
            next(batches)
        state = first.state_dict()
        expected = np.concatenate(list(batches))
    with _ordered(seed=3) as second:
        second.load_state_dict(state)
        resumed = np.concatenate(list(_draws(second, state["fresh_offset"])))
    if not np.array_equal(resumed, expected):
        raise CheckError("the batches after resuming differ")
    return f"{len(resumed):,} draws, from fresh example {state['fresh_offset']:,} on"


def check_device() -> str:
    """Check that a CUDA device serves the same as the CPU.

    The device is simulated where there is no driver or no CuPy.
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
    drawn: list[NDArray[np.int64]] = []
    for device in ("cpu", "cuda"):
        with _ordered(5, 32, device, window) as buffer:
            drawn.append(np.concatenate(list(_draws(buffer, 0, count))))
    expected, found = drawn
    if not np.array_equal(found, expected):
        raise CheckError("the device serves other batches than the CPU")
    return len(found)


CHECKS = (
    Check("exact use, factor 3", lambda: check_use(3)),
    Check("exact use, factor 2.5", lambda: check_use(2.5)),
    Check("same seed, same order", check_order),
    Check("resume from a state", check_resume),
    Check("a CUDA device as the CPU", check_device),
)
