"""Ragged records, packed rows and whole batches are served as the references say."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from typing import Any

import packed_records
import packing_reference
import pytest
import ragged_records
import whole_batches
from hypothesis import given, settings
from hypothesis import strategies as st
from ragged_reference import ragged_batches

from helpers import FACTORS, PUT_SIZES, WAIT_S

pytestmark = pytest.mark.contract
FRACTIONS = st.one_of(st.sampled_from([1.5, 2.5, 1.01, 3.3]), st.floats(1, 4))


class Records:
    """Batches of records with two ragged leaves."""

    cases = staticmethod(ragged_records.cases)

    def __init__(self, case: Any) -> None:
        self.kwargs, self.lengths = case
        self.count = len(self.lengths)
        self.make = lambda: ragged_records.make(self.kwargs)

    def serve(
        self, buffer: Any, sizes: Sequence[int], first: int, note: Callable[[], Any]
    ) -> list[Any]:
        return ragged_records.serve(
            buffer,
            self.kwargs,
            self.lengths,
            sizes,
            first=first,
            note=lambda _: note(),
        )

    def put(self, buffer: Any, number: int) -> None:
        one = ragged_records.example(number, self.lengths[number])
        buffer.put(one, timeout=0)

    def expected(self, epoch: int = 0) -> list[Any]:
        return ragged_batches(
            self.kwargs, self.lengths, ragged_records.ROW_BYTES, epoch
        )

    def check(self, served: list[Any], expected: list[Any]) -> None:
        assert served == expected


class Packed(Records):
    """Rows of examples, which have no more than the lengths of one leaf."""

    cases = staticmethod(packed_records.packings)

    def __init__(self, case: Any) -> None:
        super().__init__(case)
        self.make = lambda: packed_records.make(self.kwargs)

    def serve(
        self, buffer: Any, sizes: Sequence[int], first: int, note: Callable[[], Any]
    ) -> list[Any]:
        return packed_records.serve(buffer, self.lengths, sizes, first=first, note=note)

    def put(self, buffer: Any, number: int) -> None:
        buffer.put_batch(packed_records.together([number], self.lengths), timeout=0)

    def expected(self, epoch: int = 0) -> list[Any]:
        return packing_reference.packed_batches(self.kwargs, self.lengths, epoch)

    def check(self, served: list[Any], expected: list[Any]) -> None:
        packed_records.check_all(served, expected, self.kwargs, self.lengths)


class Whole(Records):
    """Whole batches, each a record of the buffer."""

    cases = staticmethod(whole_batches.batch_cases)

    def __init__(self, case: Any) -> None:
        self.kwargs, self.batches = case
        self.count = len(self.batches)
        self.make = lambda: whole_batches.make(self.kwargs)

    def serve(
        self, buffer: Any, sizes: Sequence[int], first: int, note: Callable[[], Any]
    ) -> list[Any]:
        return self.batches.serve(buffer, self.kwargs, sizes, first=first, note=note)

    def put(self, buffer: Any, number: int) -> None:
        buffer.put(self.batches.batch(number), timeout=0)

    def expected(self, epoch: int = 0) -> list[Any]:
        return self.batches.expected(self.kwargs, epoch)


every_kind = pytest.mark.parametrize("kind", [Records, Packed, Whole])


def give_up(case: Records, buffer: Any, count: int) -> None:
    """Put up to `count` records, draw what is there, and begin the epoch anew."""
    with contextlib.suppress(TimeoutError):
        for number in range(count):
            case.put(buffer, number)
    with contextlib.suppress(TimeoutError):
        while True:
            buffer.next_batch(timeout=0)
    buffer.close()
    with contextlib.suppress(StopIteration):
        buffer.next_batch(timeout=WAIT_S)
    buffer.reset(0)


@every_kind
@settings(max_examples=100)
@given(st.data(), PUT_SIZES, st.integers(1, 5))
def test_batches_are_those_of_the_reference(
    kind: type[Records], data: st.DataObject, sizes: list[int], epoch: int
) -> None:
    """In an epoch, and in another one after a reset, in the same memory."""
    case = kind(data.draw(kind.cases(FACTORS | FRACTIONS)))
    with case.make() as buffer:
        give_up(case, buffer, data.draw(st.integers(0, case.count)))
        for number in (0, epoch):
            served = case.serve(buffer, sizes, 0, lambda: None)
            case.check(served, case.expected(number))
            assert buffer.stats().fresh == case.count
            buffer.reset(epoch)


@every_kind
@settings(max_examples=40)
@given(st.data(), PUT_SIZES, st.integers(0, 9))
def test_a_state_of_any_batch_goes_on_with_the_next(
    kind: type[Records], data: st.DataObject, sizes: list[int], begin: int
) -> None:
    """Of some ten batches and the last one; chance says of which."""
    case = kind(data.draw(kind.cases()))
    whole = case.expected()
    with case.make() as buffer:
        states = [buffer.state_dict()]
        served = case.serve(
            buffer, sizes, 0, lambda: states.append(buffer.state_dict())
        )
        case.check(served, whole)
        assert buffer.state_dict()["epoch"] == 1
    assert len(states) == len(whole) + 1
    step = 1 + len(whole) // 10
    for done in {*range(begin % step, len(states), step), len(whole)}:
        state = states[done]
        with case.make() as buffer:
            buffer.load_state_dict(json.loads(json.dumps(state)))
            if state["epoch"] == 1:  # all was served
                assert done == len(whole)
                continue
            again = []
            rest = case.serve(
                buffer,
                sizes,
                state["fresh_offset"],
                lambda again=again, buffer=buffer: again.append(buffer.state_dict()),
            )
            case.check(rest, whole[done:])
        if len(again) > 1 and done % 3 == 0:  # of a buffer that was resumed itself
            with case.make() as buffer:
                buffer.load_state_dict(again[0])
                first = again[0]["fresh_offset"]
                rest = case.serve(buffer, sizes, first, lambda: None)
                case.check(rest, whole[done + 1 :])


def epochs_of_states(case: Records, buffer: Any) -> tuple[int, list[int]]:
    """Put all and close, drawing in turn, in one thread.

    Returns:
        The number of batches drawn before `close()`, and the epoch of the state then
        and after each later batch.
    """
    done = batches = 0
    while done < case.count:
        with contextlib.suppress(TimeoutError):
            case.put(buffer, done)
            done += 1
            continue
        with contextlib.suppress(TimeoutError):
            buffer.next_batch(timeout=0)
            batches += 1
    buffer.close()
    seen = [buffer.state_dict()["epoch"]]
    while True:
        try:
            buffer.next_batch(timeout=WAIT_S)
        except StopIteration:
            assert buffer.state_dict()["epoch"] == 1
            assert buffer.state_dict()["fresh_offset"] == 0
            return batches, seen
        seen.append(buffer.state_dict()["epoch"])


@every_kind
@settings(max_examples=80)
@given(st.data())
def test_the_last_batch_ends_the_epoch(
    kind: type[Records], data: st.DataObject
) -> None:
    """A state after it is the next epoch's start, and no earlier one is."""
    case = kind(data.draw(kind.cases(FRACTIONS)))
    with case.make() as buffer:
        before, seen = epochs_of_states(case, buffer)
    assert seen == [0] * (len(case.expected()) - before) + [1]


# Draws that are given up: an upper bound of the draws left says that a batch is left.
GIVEN_UP = [
    Records(
        (
            {"window": 12, "factor": 1.25, "batch_size": 3, "payload_bytes": 260},
            [(n, 0) for n in (0, 1, 7, 9, 6, 6, 8)],
        )
    ),
    Records(
        (
            {"window": 21, "factor": 2.5, "batch_size": 14, "payload_bytes": 98},
            [(0, n) for n in (*[0] * 38, 1, 0, 10, 1, 0, 0, 0)],
        )
    ),
    Packed(
        (
            {"window": 11, "factor": 2, "batch_size": 7, "payload_bytes": 623},
            [5, 6, 8, 8, 1, 2, 4, 2, 1, 7, 0, 8, 7, 3, 7, 2, 0, 4, 1, 2, 1],
        )
    ),
]
GIVEN_UP[-1].kwargs["pack_to"] = 13


@pytest.mark.parametrize("case", GIVEN_UP)
def test_draws_that_are_given_up_end_the_epoch(case: Records) -> None:
    case.kwargs |= {"drop_last": True, "seed": 4}
    whole = case.expected()
    epochs = []
    with case.make() as buffer:
        case.serve(buffer, [50], 0, lambda: epochs.append(buffer.state_dict()["epoch"]))
    assert epochs[:-1] == [0] * (len(whole) - 1)
    with case.make() as buffer:
        before, seen = epochs_of_states(case, buffer)
    assert seen == [0] * (len(whole) - before) + [1]
