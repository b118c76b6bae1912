"""A slow, obviously right reference of rows that are packed with whole examples.

Examples come in the order of the draws. An example goes to the oldest row that has room
for it and a free place, among the 64 rows that were begun last, else it begins a new
row. Rows are served in the order in which they were begun, `batch_size` of them
together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ragged_reference import ragged_draws

import echobuf
from equal_arrays import assert_equal

OPEN = 64

SPEC = {
    "tokens": echobuf.Field((None,), np.int32),
    "points": echobuf.Field((None, 3), np.uint8),
}
ROW_BYTES = 7
PAD = {"tokens": -7, "points": 9}


@dataclass
class Row:
    """The records of a row, in order, and the places that they take."""

    records: list[int] = field(default_factory=list)
    used: int = 0


def pack(draws: Sequence[int], lengths: Sequence[int], pack_to: int) -> list[Row]:
    """The rows of records that are drawn in this order.

    Args:
        draws: records.
        lengths: of each record, its length, which may be cut.
        pack_to: the length of a row.
    """
    rows: list[Row] = []
    for record in draws:
        length = min(lengths[record], pack_to)
        room = [
            row
            for row in rows[-OPEN:]
            if row.used < pack_to and row.used + length <= pack_to
        ]
        if not room:
            rows.append(Row())
            room = rows[-1:]
        room[0].records.append(record)
        room[0].used += length
    return rows


def packed_batches(
    kwargs: dict[str, Any], lengths: Sequence[int], epoch: int = 0
) -> list[list[Row]]:
    """The batches of a buffer made with `kwargs`."""
    cut = [min(length, kwargs["pack_to"]) for length in lengths]
    draws = ragged_draws(kwargs, [length * ROW_BYTES for length in cut], epoch)
    rows = pack(draws, lengths, kwargs["pack_to"])
    size = kwargs["batch_size"]
    batches = [rows[at : at + size] for at in range(0, len(rows), size)]
    if kwargs["drop_last"] and batches and len(batches[-1]) < size:
        batches.pop()
    return batches


def tokens(number: int, length: int) -> np.ndarray:
    return (1000 * number + np.arange(length)).astype(np.int32)


def points(number: int, length: int) -> np.ndarray:
    return (number + np.arange(3 * length)).astype(np.uint8).reshape(length, 3)


def example(number: int, length: int) -> dict[str, Any]:
    return {"tokens": tokens(number, length), "points": points(number, length)}


def check(
    batch: dict[str, Any],
    rows: Sequence[Row],
    kwargs: dict[str, Any],
    lengths: Sequence[int],
) -> None:
    """Compare every value of a batch with those of its rows, and their padding."""
    size = kwargs["pack_to"]
    pad = kwargs.get("pad_value", {"tokens": 0, "points": 0})
    for name, make in (("tokens", tokens), ("points", points)):
        leaf = batch[name]
        assert type(leaf) is echobuf.Packed
        parts = [
            [make(number, lengths[number])[:size] for number in row.records]
            for row in rows
        ]
        values = np.full_like(leaf.values, pad[name])
        ids = np.zeros((len(rows), size), np.int32)
        positions = np.zeros((len(rows), size), np.int32)
        for at, row in enumerate(parts):
            start = 0
            for segment, part in enumerate(row, 1):
                end = start + len(part)
                values[at, start:end] = part
                ids[at, start:end] = segment
                positions[at, start:end] = np.arange(len(part))
                start = end
        for got, want in (
            (leaf.values, values),
            (leaf.segment_ids, ids),
            (leaf.positions, positions),
            (leaf.lengths, np.array([row.used for row in rows], np.int64)),
        ):
            assert got.dtype == want.dtype
            assert_equal(got, want)
        seen = [part for row in parts for part in row if len(part)]
        for got, want in zip(leaf.to_list(), seen, strict=True):
            assert_equal(got, want)
