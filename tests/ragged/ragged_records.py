"""Records with two ragged leaves of different lengths, whose every byte follows."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

import echobuf
from equal_arrays import assert_equal
from helpers import FACTORS, WAIT_S, Worker, largest_batch
from schedule_reference import ratio

ROW_BYTES = (4, 3)  # of a row of each ragged leaf
ROW = sum(ROW_BYTES)
SPEC = {
    "id": echobuf.Field((), np.int64),
    "tokens": echobuf.Field((None,), np.int32),
    "points": echobuf.Field((None, 3), np.uint8),
}
SPEC_OF_LENGTHS = {
    **SPEC,
    "tokens": echobuf.Field((None,), np.int32, max_length=9),
    "points": echobuf.Field((None, 3), np.uint8, max_length=7),
}
PAD = {"id": None, "tokens": -7, "points": 9}

Lengths = tuple[int, int]  # of tokens, and of points


def tokens(number: int, length: int) -> np.ndarray:
    return (1000 * number + np.arange(length)).astype(np.int32)


def points(number: int, length: int) -> np.ndarray:
    return (number + np.arange(3 * length)).astype(np.uint8).reshape(length, 3)


def example(number: int, lengths: Lengths) -> dict[str, Any]:
    return {
        "id": number,
        "tokens": tokens(number, lengths[0]),
        "points": points(number, lengths[1]),
    }


def ragged(arrays: Sequence[np.ndarray], empty: np.ndarray) -> echobuf.Ragged:
    """Arrays one after the other."""
    offsets = np.zeros(len(arrays) + 1, np.int64)
    offsets[1:] = np.cumsum([len(array) for array in arrays])
    return echobuf.Ragged(np.concatenate([empty, *arrays]), offsets)


def batch_of(
    ids: Sequence[int], lengths: Sequence[Lengths], form: str = "ragged"
) -> dict[str, Any]:
    """Records together: as `Ragged`, as plain tuples, or as lists of arrays."""
    examples = [example(number, lengths[number]) for number in ids]
    leaves = {name: [each[name] for each in examples] for name in ("tokens", "points")}
    batch: dict[str, Any] = {"id": np.array(ids, np.int64).reshape(-1), **leaves}
    if form == "list":
        return batch
    for name, empty in (("tokens", tokens(0, 0)), ("points", points(0, 0))):
        whole = ragged(leaves[name], empty)
        batch[name] = whole if form == "ragged" else tuple(whole)
    return batch


def check(batch: dict[str, Any], kwargs: dict[str, Any]) -> list[int]:
    """The ids of a batch all of whose bytes are those of its records, and padding."""
    ids = batch["id"].tolist()
    pad_to = kwargs.get("pad_to") or 1
    for name, make in (("tokens", tokens), ("points", points)):
        leaf = batch[name]
        padded = kwargs.get("ragged") == "padded"
        assert type(leaf) is (echobuf.Padded if padded else echobuf.Ragged)
        lengths = leaf.lengths.tolist()
        assert leaf[1].dtype == np.int64
        parts = leaf.to_list()
        assert len(parts) == len(ids)
        for number, length, part in zip(ids, lengths, parts, strict=True):
            assert_equal(part, make(number, length))
            assert part.dtype == SPEC[name].dtype
        pad = (kwargs.get("pad_value") or {}).get(name, 0)
        if padded:
            longest = leaf.values.shape[1]
            assert longest == -(-max(lengths) // pad_to) * pad_to
            assert (leaf.values[~leaf.mask] == pad).all()
        else:
            assert len(leaf.values) == -(-sum(lengths) // pad_to) * pad_to
            assert (leaf.values[sum(lengths) :] == pad).all()
    return ids


def lengths_of(batch: dict[str, Any]) -> list[Lengths]:
    """The lengths of the ragged leaves of each record of a batch."""
    leaves = (batch[name].lengths.tolist() for name in ("tokens", "points"))
    return list(zip(*leaves, strict=True))


FORMS = ("ragged", "tuple", "list")


def put_all(
    buffer: Any, ids: Sequence[int], lengths: Sequence[Lengths], sizes: Sequence[int]
) -> None:
    """A producer: `put` (a size of 0) and `put_batch` in turn, in all forms."""
    turns = zip(itertools.cycle(sizes), itertools.cycle(FORMS), strict=False)
    at = 0
    while at < len(ids):
        size, form = next(turns)
        if size:
            part = batch_of(ids[at : at + size], lengths, form)
            buffer.put_batch(part, timeout=WAIT_S)
        else:
            buffer.put(example(ids[at], lengths[ids[at]]), timeout=WAIT_S)
        at += max(size, 1)


def serve(
    buffer: Any,
    kwargs: dict[str, Any],
    lengths: Sequence[Lengths],
    sizes: Sequence[int],
    *,
    first: int = 0,
    note: Callable[[list[int]], None] = lambda ids: None,
) -> list[list[int]]:
    """The ids of all batches of an epoch, fed by one producer on a thread."""

    def feed() -> None:
        put_all(buffer, range(first, len(lengths)), lengths, sizes)
        buffer.close()

    producer = Worker(feed)
    served = []
    while True:
        try:
            batch = buffer.next_batch(timeout=WAIT_S)
        except StopIteration:
            break
        ids = check(batch, kwargs)
        assert lengths_of(batch) == [lengths[number] for number in ids]
        served.append(ids)
        note(ids)
    producer.result()
    return served


@st.composite
def cases(
    draw: st.DrawFn, factors: st.SearchStrategy[float] = FACTORS
) -> tuple[dict[str, Any], list[Lengths]]:
    """Keyword arguments of a buffer with ragged leaves, and the lengths of records.

    Some records have no rows, some exactly a segment's share of the payload.
    """
    factor = draw(factors)
    exact = ratio(factor)
    window = draw(st.integers(math.ceil(exact), 24))
    by_rows = draw(st.booleans())
    kwargs: dict[str, Any] = {
        "window": window,
        "factor": factor,
        "seed": draw(st.integers(0, 2**63 - 1)),
        "prefetch": draw(st.integers(0, 2)),
        "drop_last": draw(st.booleans()) and not by_rows,
        "ragged": draw(st.sampled_from(["packed", "padded"])),
        "pad_to": draw(st.sampled_from([None, 1, 4])),
    }
    size = 1
    if by_rows:
        kwargs["max_rows"] = draw(st.integers(1, 40))
    else:
        size = kwargs["batch_size"] = draw(st.integers(1, largest_batch(window, exact)))
    if kwargs["ragged"] == "padded" or kwargs["pad_to"]:
        kwargs["pad_value"] = PAD
    n = draw(st.integers(0, 50))
    if draw(st.integers(0, 4)) == 0:  # no limit but `max_length`
        length = st.tuples(st.integers(0, 9), st.integers(0, 7))
        return kwargs, draw(st.lists(length, min_size=n, max_size=n))
    least = max(size, math.ceil(exact)) * ROW
    kwargs["payload_bytes"] = draw(st.integers(least, least + 600))
    share = kwargs["payload_bytes"] // math.ceil(exact)
    return kwargs, [_lengths(draw, share) for _ in range(n)]


def _lengths(draw: st.DrawFn, share: int) -> Lengths:
    most = draw(st.sampled_from([0, 8, 40, share]))
    first = draw(st.integers(0, min(most, share) // ROW_BYTES[0]))
    left = share - first * ROW_BYTES[0]
    if most == share and draw(st.booleans()):
        return first, left // ROW_BYTES[1]  # a whole share, but for the last bytes
    return first, draw(st.integers(0, min(most, left) // ROW_BYTES[1]))


def make(kwargs: dict[str, Any]) -> echobuf.EchoBuffer:
    """A buffer; without `payload_bytes` its lengths are limited."""
    spec = SPEC if kwargs.get("payload_bytes") else SPEC_OF_LENGTHS
    return echobuf.EchoBuffer(spec, **kwargs)
