"""Whole batches of examples that differ in length, for `unit="batch"`."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st
from ragged_records import FORMS, PAD, ROW, ROW_BYTES, Lengths, batch_of, check
from ragged_reference import ragged_draws

import echobuf
from helpers import FACTORS, WAIT_S, Worker
from schedule_reference import ratio

MOST = 4
"""Examples of a batch."""


def spec(**most: int) -> dict[str, Any]:
    """The spec of whole batches; `most` are the `max_length` of ragged leaves."""
    shapes: dict[str, Any] = {"id": (), "tokens": (None,), "points": (None, 3)}
    dtypes = {"id": "i8", "tokens": "i4", "points": "u1"}
    return {
        name: echobuf.Field((MOST, *shape), dtypes[name], most.get(name))
        for name, shape in shapes.items()
    }


class Batches:
    """Whole batches, whose examples are numbered from 0 on.

    Args:
        lengths: of the examples of each batch.
    """

    def __init__(self, lengths: Sequence[Sequence[Lengths]]) -> None:
        self.of_examples = list(itertools.chain.from_iterable(lengths))
        ends = itertools.accumulate(map(len, lengths), initial=0)
        self.ids = [list(range(*bounds)) for bounds in itertools.pairwise(ends)]

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, number: int, form: str = "ragged") -> dict[str, Any]:
        return batch_of(self.ids[number], self.of_examples, form)

    def bytes_of(self, number: int) -> int:
        return sum(
            rows * size
            for each in self.ids[number]
            for rows, size in zip(self.of_examples[each], ROW_BYTES, strict=True)
        )

    def expected(self, kwargs: dict[str, Any], epoch: int = 0) -> list[list[int]]:
        """The ids of the examples of all batches served, as the slow reference says."""
        sizes = [self.bytes_of(number) for number in range(len(self))]
        return [self.ids[number] for number in ragged_draws(kwargs, sizes, epoch)]

    def put_all(
        self, buffer: Any, numbers: Sequence[int], sizes: Sequence[int]
    ) -> None:
        """Put one batch (a size of 0) and several, in turn and in all forms."""
        turns = zip(itertools.cycle(sizes), itertools.cycle(FORMS), strict=False)
        at = 0
        while at < len(numbers):
            size, form = next(turns)
            part = [self.batch(number, form) for number in numbers[at : at + size]]
            if part:
                several = {name: [each[name] for each in part] for name in part[0]}
                buffer.put_batch(several, timeout=WAIT_S)
            else:
                buffer.put(self.batch(numbers[at], form), timeout=WAIT_S)
            at += max(size, 1)

    def serve(
        self,
        buffer: Any,
        kwargs: dict[str, Any],
        sizes: Sequence[int],
        *,
        first: int = 0,
        note: Callable[[], Any] = lambda: None,
    ) -> list[list[int]]:
        """The ids of the examples of all batches of an epoch, fed on a thread."""

        def feed() -> None:
            self.put_all(buffer, range(first, len(self)), sizes)
            buffer.close()

        producer = Worker(feed)
        served = []
        while True:
            try:
                batch = buffer.next_batch(timeout=WAIT_S)
            except StopIteration:
                break
            served.append(self.check(batch, kwargs))
            note()
        producer.result()
        return served

    def check(self, batch: dict[str, Any], kwargs: dict[str, Any]) -> list[int]:
        """The ids of a batch that is one of those put, with all of its bytes."""
        ids = check(batch, kwargs)
        assert ids in self.ids
        for name, of in (("tokens", 0), ("points", 1)):
            wanted = [self.of_examples[each][of] for each in ids]
            assert batch[name].lengths.tolist() == wanted
        return ids


@st.composite
def batch_cases(
    draw: st.DrawFn, factors: st.SearchStrategy[float] = FACTORS
) -> tuple[dict[str, Any], Batches]:
    """Keyword arguments of a buffer of whole batches, and the batches.

    Some have no rows, some exactly a segment's share of the payload.
    """
    factor = draw(factors)
    segments = math.ceil(ratio(factor))
    kwargs: dict[str, Any] = {
        "window": draw(st.integers(segments, 16)),
        "factor": factor,
        "seed": draw(st.integers(0, 2**63 - 1)),
        "prefetch": draw(st.integers(0, 2)),
        "drop_last": draw(st.booleans()),
        "ragged": draw(st.sampled_from(["packed", "padded"])),
        "pad_to": draw(st.sampled_from([None, 1, 4])),
    }
    if kwargs["ragged"] == "padded" or kwargs["pad_to"]:
        kwargs["pad_value"] = PAD
    sizes = draw(st.lists(st.integers(1, MOST), max_size=30))
    if draw(st.integers(0, 4)) == 0:  # no limit but `max_length`
        one = st.tuples(st.integers(0, 9), st.integers(0, 7))
        return kwargs, Batches([[draw(one) for _ in range(size)] for size in sizes])
    least = segments * ROW
    kwargs["payload_bytes"] = draw(st.integers(least, least + 900))
    share = kwargs["payload_bytes"] // segments
    return kwargs, Batches([_lengths(draw, size, share) for size in sizes])


def _lengths(draw: st.DrawFn, size: int, share: int) -> list[Lengths]:
    left = draw(st.sampled_from([0, 20, 90, share]))
    left = min(left, share)
    fills = left == share and draw(st.booleans())
    lengths = []
    for i in range(size):
        first = draw(st.integers(0, left // ROW_BYTES[0]))
        left -= first * ROW_BYTES[0]
        second = draw(st.integers(0, left // ROW_BYTES[1]))
        if fills and i == size - 1:
            second = left // ROW_BYTES[1]  # all, but for the last bytes
        left -= second * ROW_BYTES[1]
        lengths.append((first, second))
    return lengths


def make(kwargs: dict[str, Any], **more: Any) -> echobuf.EchoBuffer:
    """A buffer; without `payload_bytes` its lengths are limited."""
    given = {**kwargs, **more}
    limits = {} if given.get("payload_bytes") else {"tokens": 9, "points": 7}
    return echobuf.EchoBuffer(spec(**limits), unit="batch", **given)
