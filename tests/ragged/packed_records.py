"""Buffers of packed rows for tests, and one thread that puts and draws in turn."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from packing_reference import PAD, ROW_BYTES, SPEC, Row, check, example

import echobuf
from helpers import FACTORS, WAIT_S, Worker
from schedule_reference import ratio


@st.composite
def packings(
    draw: st.DrawFn, factors: st.SearchStrategy[float] = FACTORS
) -> tuple[dict[str, Any], list[int]]:
    """Keyword arguments of a buffer that packs, and the lengths of its records.

    Some records have no values, some fill a row, some are cut. Often more rows are
    begun than may be open.
    """
    factor = draw(factors)
    segments = math.ceil(ratio(factor))
    pack_to = draw(st.integers(1, 40))
    kwargs: dict[str, Any] = {
        "window": draw(st.integers(segments, 40)),
        "factor": factor,
        "batch_size": draw(st.integers(1, 70)),
        "seed": draw(st.integers(0, 2**63 - 1)),
        "prefetch": draw(st.integers(0, 2)),
        "drop_last": draw(st.booleans()),
        "pack_to": pack_to,
        "overlong": draw(st.sampled_from(["error", "cut"])),
    }
    if draw(st.booleans()):
        kwargs["pad_value"] = PAD
    if draw(st.booleans()):
        share = draw(st.integers(pack_to, 6 * pack_to)) * ROW_BYTES
        kwargs["payload_bytes"] = segments * share
    over = 5 if kwargs["overlong"] == "cut" else 0
    least, most = draw(
        st.sampled_from(
            [(0, pack_to + over), (0, 3), (pack_to // 2, pack_to), (pack_to, pack_to)]
        )
    )
    n = draw(st.integers(0, 90))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    lengths = rng.integers(min(least, most), min(most, pack_to + over) + 1, n)
    return kwargs, lengths.tolist()


def make(kwargs: dict[str, Any]) -> echobuf.EchoBuffer:
    return echobuf.EchoBuffer(SPEC, **kwargs)


def together(numbers: Sequence[int], lengths: Sequence[int]) -> dict[str, Any]:
    """Examples as lists of arrays."""
    parts = [example(number, lengths[number]) for number in numbers]
    return {name: [part[name] for part in parts] for name in SPEC}


def feed(
    buffer: echobuf.EchoBuffer,
    lengths: Sequence[int],
    sizes: Sequence[int],
    first: int = 0,
) -> None:
    """Put records from `first` on, as many together as `sizes` say, and close."""
    at, turn = first, 0
    while at < len(lengths):
        size = sizes[turn % len(sizes)]
        turn += 1
        if size == 0:
            buffer.put(example(at, lengths[at]), timeout=WAIT_S)
            at += 1
            continue
        numbers = range(at, min(at + size, len(lengths)))
        buffer.put_batch(together(numbers, lengths), timeout=WAIT_S)
        at = numbers.stop
    buffer.close()


def serve(
    buffer: echobuf.EchoBuffer,
    lengths: Sequence[int],
    sizes: Sequence[int],
    *,
    first: int = 0,
    note: Callable[[], None] = lambda: None,
) -> list[dict[str, Any]]:
    """All batches of an epoch, fed by one producer on a thread."""
    producer = Worker(feed, buffer, lengths, sizes, first)
    served = []
    for batch in iter_batches(buffer):
        served.append(batch)
        note()
    producer.result()
    return served


def iter_batches(buffer: echobuf.EchoBuffer):
    while True:
        try:
            yield buffer.next_batch(timeout=WAIT_S)
        except StopIteration:
            return


def check_all(
    served: Sequence[dict[str, Any]],
    batches: Sequence[Sequence[Row]],
    kwargs: dict[str, Any],
    lengths: Sequence[int],
) -> None:
    """Compare batches with those of the reference, value by value."""
    assert len(served) == len(batches)
    for batch, rows in zip(served, batches, strict=True):
        check(batch, rows, kwargs, lengths)
