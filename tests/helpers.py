"""Helpers of the buffer's tests: checksummed examples, producers, draining."""

import itertools
import math
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

import echobuf
from echobuf.option_table import OptionTable
from equal_arrays import assert_equal
from permutation_reference import permutation_key, permute
from schedule_reference import (
    Order,
    batches,
    draws,
    epoch_phase,
    fixed_passes,
    ratio,
)

WAIT_S = 60.0
"""No wait of a test comes near it; a test that hangs fails instead."""
WORDS = 37
SPEC = {
    "id": echobuf.Field((), np.int64),
    "body": (echobuf.Field((WORDS,), np.uint64), echobuf.Field((3, 1), np.uint8)),
}


def stable_id(value: object) -> str:
    """Return an id of a parameter that is the same in each process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:30]


def on_device() -> bool:
    """True if buffers are made on a simulated device by default."""
    return OptionTable.device.default != "cpu"


def stack(ids: Sequence[int] | np.ndarray) -> dict[str, Any]:
    """Examples whose every field follows from their id."""
    number = np.asarray(ids, np.int64).reshape(-1)
    words = number.astype(np.uint64)[:, None] + np.arange(WORDS, dtype=np.uint64)
    words = words * np.uint64(0x9E3779B97F4A7C15)
    tail = (number[:, None] + np.arange(3)).astype(np.uint8)[..., None]
    return {"id": number, "body": (words, tail)}


def example(number: int) -> dict[str, Any]:
    """One example, without the batch axis."""
    whole = stack([number])
    return {"id": whole["id"][0], "body": tuple(leaf[0] for leaf in whole["body"])}


def ids_of(batch: dict[str, Any]) -> list[int]:
    """The ids in a batch none of whose records is torn."""
    expected = stack(batch["id"])
    for got, want in zip(batch["body"], expected["body"], strict=True):
        assert_equal(got, want)
    return batch["id"].tolist()


def largest_batch(window: int, factor: Fraction) -> int:
    """The largest batch size that the contract allows."""
    if factor.denominator == 1:
        return window
    return math.floor(factor) * (window // math.ceil(factor))


FACTORS = st.one_of(
    st.integers(1, 5),
    st.sampled_from([1.5, 2.5, 1.25, 3.3, 1.01, 2.9]),
    st.floats(1, 4),
)


@st.composite
def options(
    draw: st.DrawFn, factors: st.SearchStrategy[float] = FACTORS
) -> dict[str, Any]:
    """Keyword arguments of a buffer with a fixed factor."""
    factor = draw(factors)
    window = draw(st.integers(math.ceil(ratio(factor)), 40))
    return {
        "window": window,
        "factor": factor,
        "batch_size": draw(st.integers(1, largest_batch(window, ratio(factor)))),
        "seed": draw(st.integers(0, 2**63 - 1)),
        "prefetch": draw(st.integers(0, 3)),
        "drop_last": draw(st.booleans()),
    }


PUT_SIZES = st.lists(st.integers(0, 50), min_size=1, max_size=6)
"""Sizes to put in turn; 0 stands for a single `put`."""


def keyed(seed: int, epoch: int) -> Order:
    """The order of the passes of an epoch."""

    def order(number: int, count: int) -> list[int]:
        return permute(count, permutation_key(seed, epoch, number), 0, count)

    return order


def expected_passes(kwargs: dict[str, Any], n: int, epoch: int = 0) -> list[list[int]]:
    """The windows of the passes of a buffer made with `kwargs`, in fresh order."""
    factor = ratio(kwargs["factor"])
    phase = epoch_phase(factor, kwargs.get("seed", 0), epoch)
    return fixed_passes(kwargs["window"], factor, n, phase)


def expected_draws(kwargs: dict[str, Any], n: int, epoch: int = 0) -> list[int]:
    """Return the reference's batches for a buffer made with `kwargs`."""
    return draws(expected_passes(kwargs, n, epoch), keyed(kwargs["seed"], epoch))


def expected_batches(kwargs: dict[str, Any], n: int, epoch: int = 0) -> list[list[int]]:
    """The same, cut into batches."""
    stream = expected_draws(kwargs, n, epoch)
    return batches(stream, kwargs["batch_size"], drop_last=kwargs["drop_last"])


KWARGS = {"batch_size": 4, "window": 12, "factor": 2, "seed": 3, "drop_last": False}
"""Of the small buffer that many tests begin with."""


def make(kind: Callable[..., Any] = echobuf.EchoBuffer, **kwargs: Any) -> Any:
    """The small buffer, with other arguments where they are given."""
    return kind(SPEC, **{**KWARGS, **kwargs})


class Worker(threading.Thread):
    """A thread whose result, or error, `result()` hands over."""

    def __init__(self, work: Callable[..., Any], *args: Any) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._args = args
        self._value: Any = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._value = self._work(*self._args)
        except BaseException as error:
            self._error = error

    def result(self) -> Any:
        """Waits for the thread; raises what it raised."""
        self.join(WAIT_S)
        assert not self.is_alive(), "the thread hangs"
        if self._error is not None:
            raise self._error
        return self._value


def put_all(buffer: Any, ids: Sequence[int], sizes: Sequence[int]) -> None:
    """A producer: `put` and `put_batch` in turn, as `sizes` says."""
    turns = itertools.cycle(sizes)
    at = 0
    while at < len(ids):
        if size := next(turns):
            buffer.put_batch(stack(ids[at : at + size]), timeout=WAIT_S)
        else:
            buffer.put(example(ids[at]), timeout=WAIT_S)
        at += max(size, 1)


def feed(buffer: Any, ids: Sequence[int], sizes: Sequence[int]) -> None:
    """The only producer: closes when all is put."""
    put_all(buffer, ids, sizes)
    buffer.close()


def check_uses(epochs: list[list[int]], kwargs: dict[str, Any], n: int) -> None:
    """Checks the promise: each epoch by itself, and the mean over all of them."""
    factor = ratio(kwargs["factor"])
    segment = kwargs["window"] // math.ceil(factor)
    in_all: Counter[int] = Counter()
    for served in epochs:
        uses = Counter(served)
        assert sorted(uses) == list(range(n))
        assert set(uses.values()) <= {math.floor(factor), math.ceil(factor)}
        assert abs(len(served) - n * factor) <= segment
        in_all += uses
    for times in in_all.values():
        assert abs(Fraction(times, len(epochs)) - factor) <= Fraction(1, 5)


def drain(buffer: Any) -> Iterator[list[int]]:
    """The ids of every batch that is left."""
    while True:
        try:
            batch = buffer.next_batch(timeout=WAIT_S)
        except StopIteration:
            return
        yield ids_of(batch)


def until(condition: Callable[[], bool]) -> None:
    """Returns once a condition that another thread brings about holds."""
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end
        os.sched_yield()


def put_what_fits(buffer: Any, ids: Sequence[int]) -> int:
    """Puts as many as there is room for, without waiting; how many that were."""
    try:
        buffer.put_batch(stack(ids), timeout=0)
    except TimeoutError as error:
        return error.accepted
    return len(ids)


def pump(buffer: Any, ids: Sequence[int], sizes: Iterable[int]) -> Iterator[list[int]]:
    """Producer and consumer in one thread: every batch, with no call in flight."""
    left = list(ids)
    turns = list(sizes)
    patience_s = 0.0
    if not left:
        buffer.close()
    while True:
        try:
            yield ids_of(buffer.next_batch(timeout=patience_s if left else WAIT_S))
        except StopIteration:
            return
        except TimeoutError:
            turns.append(turns.pop(0))
            done = put_what_fits(buffer, left[: max(turns[-1], 1)])
            patience_s = 0.0 if done else 0.01  # the prefetching thread needs a moment
            del left[:done]
            if not left:
                buffer.close()


def middle(**kwargs: Any) -> tuple[dict[str, Any], list[list[int]]]:
    """A state in the middle of an epoch of 20 examples, and the batches before it."""
    with make(**kwargs) as buffer:
        turns = pump(buffer, range(20), [5])
        served = [next(turns) for _ in range(3)]
        return buffer.state_dict(), served
