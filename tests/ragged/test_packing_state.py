"""Packed rows go on from the state of any batch, and lose nothing with "auto"."""

import contextlib
import json
import math
from collections import Counter

import numpy as np
import pytest
from packed_records import check_all, iter_batches, make, serve, together
from packing_reference import packed_batches

from echobuf import StateError
from equal_arrays import assert_equal
from helpers import WAIT_S, on_device
from opened_states import opened
from opened_states import resealed as with_checksum

pytestmark = pytest.mark.contract


SMALL = {"window": 8, "factor": 2, "batch_size": 2, "pack_to": 8, "seed": 5}


def through_json(state):
    return json.loads(json.dumps(state))


def is_over(state):
    return state["epoch"] == 1


def test_the_state_of_full_rows_holds_what_was_begun_before_them():
    """Rows that are full leave no batch open; rows of an earlier state still are."""
    kwargs = {"window": 8, "factor": 1, "batch_size": 1, "pack_to": 4, "seed": 1}
    kwargs["drop_last"] = False
    lengths = [3, *[4] * 7, *[4] * 56, 1, 1, 1, *[4] * 5]
    batches = packed_batches(kwargs, lengths)
    state = None
    served = []
    for _ in batches:
        with make(kwargs) as buffer:
            first = 0
            if state is not None:
                buffer.load_state_dict(through_json(state))
                first = state["fresh_offset"]
            states = []

            def note(buffer=buffer, states=states):
                states.append(buffer.state_dict())

            served += serve(buffer, lengths, [9], first=first, note=note)[:1]
            state = states[0]
    assert is_over(state)
    check_all(served, batches, kwargs, lengths)


def test_a_state_before_the_end_is_known_says_that_more_may_come():
    kwargs = {"window": 8, "factor": 1, "batch_size": 2, "pack_to": 4, "seed": 5}
    kwargs["drop_last"] = True
    with make(kwargs) as buffer:
        buffer.put_batch(together(range(8), [4] * 8))
        for _ in range(4):
            buffer.next_batch(timeout=WAIT_S)
        assert buffer.state_dict()["epoch"] == 0
        buffer.close()
        with pytest.raises(StopIteration):
            buffer.next_batch(timeout=WAIT_S)
        assert is_over(buffer.state_dict())


def resealed(state, **position):
    """The state with another position, and the checksum that fits it."""
    body = opened(state)
    return with_checksum({**body, "position": {**body["position"], **position}})


@pytest.mark.parametrize(
    "position",
    [
        {"open_rows": [9, 1]},
        {"open_rows": [3]},
        {"open_rows": [3, -1]},
        {"open_rows": [0, 0] * 65},
        {"served_ahead": 2**60},
        {"served_ahead": -1},
    ],
)
def test_rows_that_cannot_be_are_refused(position):
    with make(SMALL) as buffer:
        buffer.put_batch(together(range(12), [3] * 12))
        buffer.close()
        buffer.next_batch(timeout=WAIT_S)
        state = buffer.state_dict()
    with make(SMALL) as buffer:
        with pytest.raises(StateError):
            buffer.load_state_dict(resealed(state, **position))
        buffer.load_state_dict(resealed(state))


@pytest.mark.parametrize(
    "more", [{"pack_to": 9}, {"overlong": "cut"}, {"batch_size": 3}, {"seed": 6}]
)
def test_a_state_of_other_arguments_is_refused(more):
    with make(SMALL) as buffer:
        state = buffer.state_dict()
    with make({**SMALL, **more}) as buffer, pytest.raises(StateError):
        buffer.load_state_dict(state)


AUTO = {"window": 40, "factor": "auto", "max_factor": 3, "pack_to": 16, "seed": 2}


def numbers_of(batches, lengths):
    """The records in batches; all of them have values."""
    return [
        int(part[0]) // 1000
        for batch in batches
        for part in batch["tokens"].to_list()
        if len(part) == lengths[int(part[0]) // 1000]
    ]


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("payload_bytes", [None, 8 * 16 * 7 * 4])
def test_auto_serves_each_example_at_least_once(prefetch, payload_bytes):
    kwargs = {**AUTO, "batch_size": 3, "prefetch": prefetch}
    kwargs["payload_bytes"] = payload_bytes
    lengths = [1 + number * 7 % 16 for number in range(500)]
    for sizes in ([0], [7], [100]):
        with make(kwargs) as buffer:
            served = serve(buffer, lengths, sizes)
            stats = buffer.stats()
        uses = Counter(numbers_of(served, lengths))
        assert sorted(uses) == list(range(500))
        assert max(uses.values()) <= 3
        assert stats.served == uses.total()


@pytest.mark.parametrize("slow", ["first", "second"])
def test_auto_loses_nothing_in_a_resumed_run(slow):
    """Upstream is slow in one of the runs, so their passes differ.

    No row is ever full: after each state come many examples that were served before it.
    """
    lengths = [2 + 2 * (number * 5 % 8) for number in range(300)]
    kwargs = {**AUTO, "batch_size": 2, "drop_last": False, "pack_to": 17}
    overlaps = 0
    stops = range(1, 50, 12 if on_device() else 6)  # it takes longer there
    for stop in stops:
        with make(kwargs) as buffer:
            at, served = 0, []
            while len(served) < stop:
                at = put_what_fits(
                    buffer, at, lengths[: at + 1 if slow == "first" else 300]
                )
                try:
                    served.append(buffer.next_batch(timeout=0))
                except TimeoutError:
                    assert at < 300
            state = buffer.state_dict()
        first = numbers_of(served, lengths)
        overlaps += any(number >= state["fresh_offset"] for number in first)
        rest = []
        with make(kwargs) as buffer:
            buffer.load_state_dict(through_json(state))
            at = state["fresh_offset"]
            while at < 300:
                at = put_what_fits(
                    buffer, at, lengths[: at + 1 if slow == "second" else 300]
                )
                with contextlib.suppress(TimeoutError):
                    rest.append(buffer.next_batch(timeout=0))
            buffer.close()
            rest += iter_batches(buffer)
        counts = Counter(first + numbers_of(rest, lengths))
        assert sorted(counts) == list(range(300))
    assert overlaps > len(stops) / 3


def put_what_fits(buffer, at, lengths):
    while at < len(lengths):
        try:
            buffer.put_batch(together([at], lengths), timeout=0)
        except TimeoutError:
            return at
        at += 1
    return at


def test_auto_goes_on_with_the_pass_that_was_begun():
    """All records are there: the rest of the pass is packed as it would have been."""
    kwargs = {**AUTO, "max_factor": 1, "batch_size": 2, "drop_last": False}
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 17, 30).tolist()
    with make(kwargs) as buffer:
        buffer.put_batch(together(range(30), lengths))
        buffer.close()
        states, whole = [], []
        while True:
            states.append(buffer.state_dict())
            try:
                whole.append(buffer.next_batch(timeout=WAIT_S))
            except StopIteration:
                break
    assert len(whole) > 4
    for done, state in enumerate(states[1:-1], 1):
        with make(kwargs) as buffer:
            buffer.load_state_dict(through_json(state))
            rest = serve(buffer, lengths, [50], first=state["fresh_offset"])
        assert len(rest) == len(whole) - done
        for got, want in zip(rest, whole[done:], strict=True):
            assert_equal(got["tokens"].values, want["tokens"].values)
            assert_equal(got["tokens"].segment_ids, want["tokens"].segment_ids)
    assert math.isclose(sum(lengths), sum(b["tokens"].lengths.sum() for b in whole))
