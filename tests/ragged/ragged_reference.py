"""A slow, obviously right reference of the schedule of records that differ in length.

What a segment takes: segment i takes records, in the order of `put`, while it has at
most its number of them (that of records of one size) and their bytes are at most a
share, `payload_bytes // ceil(factor)`. It closes with its last record, or when the next
record does not fit; that one begins the next segment. All else is as for records of one
size: passes, the lives of segments, the order within a pass. But with a fractional
factor a segment that its payload has ended does not live as a whole: its records get
the extra use one by one, evenly spread, as if there were only records of such segments;
and the other segments live as if there were only such ones.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from helpers import keyed
from schedule_reference import (
    batches,
    draws,
    epoch_phase,
    passes_of,
    ratio,
    segment_sizes,
    shares,
)


def segments(sizes: Iterable[int], bytes_of: Sequence[int], share: int) -> Any:
    """Records 0, 1, ... dealt into segments.

    Args:
        sizes: the most records of segment 0, 1, ...
        bytes_of: the bytes of each record.
        share: the most bytes of a segment; 0 for no limit.
    """
    most = iter(sizes)
    dealt: list[list[int]] = []
    room = free = 0
    for record, size in enumerate(bytes_of):
        if not dealt or room == 0 or (share and size > free):
            dealt.append([])
            room, free = next(most), share
        dealt[-1].append(record)
        room, free = room - 1, free - size
    return dealt


def ragged_passes(
    kwargs: dict[str, Any], bytes_of: Sequence[int], epoch: int = 0
) -> list[list[int]]:
    """The window of every pass of a buffer made with `kwargs`, in fresh order."""
    factor = ratio(kwargs["factor"])
    share = (kwargs.get("payload_bytes") or 0) // math.ceil(factor)
    sizes = segment_sizes(kwargs["window"], factor)
    phase = epoch_phase(factor, kwargs["seed"], epoch)
    dealt = segments(sizes, bytes_of, share)
    if factor.denominator == 1:
        return passes_of(dealt, factor, phase)
    return list(_passes_of_records(dealt, kwargs["window"], factor, phase))


def _passes_of_records(
    dealt: Sequence[list[int]], window: int, factor: Fraction, phase: int
) -> Iterable[list[int]]:
    """Passes where records leave one by one."""
    den = factor.denominator
    of_segments = iter(shares(factor, Fraction(phase, den)))
    of_records = iter(shares(factor, Fraction(den - 1 - phase, den)))
    full = window // math.ceil(factor)
    live: list[tuple[int, int]] = []  # the passes left, the record
    entering = deque(dealt)
    while entering or live:
        if entering:
            segment = entering.popleft()
            if entering and len(segment) < full:
                live += [(next(of_records), record) for record in segment]
            else:
                life = next(of_segments)
                live += [(life, record) for record in segment]
        yield [record for _, record in live]
        live = [(left - 1, record) for left, record in live if left > 1]


def ragged_draws(
    kwargs: dict[str, Any], bytes_of: Sequence[int], epoch: int = 0
) -> list[int]:
    """The records in the order in which they are served."""
    passes = ragged_passes(kwargs, bytes_of, epoch)
    return draws(passes, keyed(kwargs["seed"], epoch))


def ragged_batches(
    kwargs: dict[str, Any],
    rows_of: Sequence[Sequence[int]],
    row_bytes: Sequence[int],
    epoch: int = 0,
) -> list[list[int]]:
    """The records of each batch.

    Args:
        kwargs: of the buffer.
        rows_of: of each record, the lengths of its ragged leaves.
        row_bytes: of each ragged leaf, the bytes of a row.
        epoch: its number.
    """
    bytes_of = [
        sum(rows * size for rows, size in zip(lengths, row_bytes, strict=True))
        for lengths in rows_of
    ]
    stream = ragged_draws(kwargs, bytes_of, epoch)
    most = kwargs.get("max_rows")
    if most is None:
        return batches(stream, kwargs["batch_size"], drop_last=kwargs["drop_last"])
    return list(_fitting(stream, rows_of, kwargs))


def _fitting(
    stream: Sequence[int], rows_of: Sequence[Sequence[int]], kwargs: dict[str, Any]
) -> Iterable[list[int]]:
    """Cut draws into batches of `max_rows`, of at most a window of records."""
    batch: list[int] = []
    for record in stream:
        more = [*batch, record]
        leaves = list(zip(*(rows_of[each] for each in more), strict=True))
        multiple = kwargs.get("pad_to") or 1
        if kwargs.get("ragged") == "padded":
            rows = _round_up(max(map(max, leaves)), multiple) * len(more)
        else:
            rows = _round_up(max(map(sum, leaves)), multiple)
        if batch and (rows > kwargs["max_rows"] or len(batch) == kwargs["window"]):
            yield batch
            more = [record]
        batch = more
    if batch:
        yield batch


def _round_up(rows: int, multiple: int) -> int:
    return -(-rows // multiple) * multiple
