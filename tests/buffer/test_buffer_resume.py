"""A buffer that loads a state goes on with exactly the batches that would have come."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from helpers import (
    PUT_SIZES,
    SPEC,
    WAIT_S,
    drain,
    expected_batches,
    expected_passes,
    options,
    pump,
    put_what_fits,
    until,
)
from schedule_reference import fresh_offset

pytestmark = pytest.mark.contract


def resumed(kwargs: dict[str, Any], state: str, n: int, sizes: list[int]) -> list:
    """Return the batches that another buffer serves from a state on."""
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        loaded = json.loads(state)
        buffer.load_state_dict(loaded)
        return list(pump(buffer, range(loaded["fresh_offset"], n), sizes))


@settings(deadline=None, max_examples=120)
@given(options(), st.integers(1, 120), PUT_SIZES, st.data())
def test_a_cut_anywhere_changes_no_batch(kwargs, n, sizes, data):
    epoch = data.draw(st.sampled_from([0, 0, 1, 5]))
    expected = expected_batches(kwargs, n, epoch)
    cut = data.draw(st.integers(0, len(expected)) | st.just(len(expected)))
    passes = expected_passes(kwargs, n, epoch)
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        if epoch:
            buffer.close()
            buffer.reset(epoch)
        first = pump(buffer, range(n), sizes)
        assert [next(first) for _ in range(cut)] == expected[:cut]
        if cut == len(expected) and kwargs["drop_last"]:
            assert not list(first)  # before upstream has ended, nobody knows the last
        state = json.dumps(buffer.state_dict())
    offset = json.loads(state)["fresh_offset"]
    if cut < len(expected):
        assert offset == fresh_offset(passes, cut * kwargs["batch_size"])
        assert resumed(kwargs, state, n, sizes[::-1]) == expected[cut:]
    elif cut:
        assert offset == 0
        after = expected_batches(kwargs, n, epoch + 1)
        assert resumed(kwargs, state, n, sizes[::-1]) == after


@settings(deadline=None, max_examples=30)
@given(options(), st.integers(1, 90), st.data())
def test_cut_after_cut_changes_no_batch(kwargs, n, data):
    expected = expected_batches(kwargs, n)
    served: list[list[int]] = []
    state: dict[str, Any] | None = None
    while len(served) < len(expected):
        more = data.draw(st.integers(1, len(expected) - len(served)))
        with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
            if state:
                buffer.load_state_dict(state)
            offset = state["fresh_offset"] if state else 0
            turns = pump(buffer, range(offset, n), [11, 1])
            served += [next(turns) for _ in range(more)]
            state = buffer.state_dict()
    assert served == expected


OPTIONS = {"window": 12, "batch_size": 4, "factor": 3, "seed": 8}


def state_after(cut: int, n: int, *, closed: bool) -> dict[str, Any]:
    with echobuf.EchoBuffer(SPEC, **OPTIONS) as buffer:
        assert put_what_fits(buffer, range(n)) == n
        if closed:
            buffer.close()
        for _ in range(cut):
            buffer.next_batch(timeout=0)
        return buffer.state_dict()


@pytest.mark.host
def test_what_is_assembled_ahead_is_not_in_the_state():
    states = []
    for prefetch in (0, 2):
        kwargs = {**OPTIONS, "factor": 1, "prefetch": prefetch}
        with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
            assert put_what_fits(buffer, range(24)) == 24
            buffer.next_batch(timeout=WAIT_S)
            if prefetch:  # its pass is drawn to the end ahead, which frees the slots
                until(lambda b=buffer: b.stats().resident == 12)
            states.append(buffer.state_dict())
    assert states[0] == states[1]


@pytest.mark.parametrize("put_again", [0, 1, 11])
def test_an_upstream_too_short_for_what_was_resident_is_refused(put_again):
    state = state_after(5, 16, closed=False)
    with echobuf.EchoBuffer(SPEC, **OPTIONS) as buffer:
        buffer.load_state_dict(state)
        assert put_what_fits(buffer, range(put_again)) == put_again
        buffer.close()
        with pytest.raises(echobuf.StateError):
            buffer.next_batch(timeout=WAIT_S)


@pytest.mark.parametrize("n", [9, 11])
def test_an_upstream_of_another_length_than_was_known_is_refused(n):
    state = state_after(3, 10, closed=True)
    with echobuf.EchoBuffer(SPEC, **OPTIONS) as buffer:
        buffer.load_state_dict(state)
        put_what_fits(buffer, range(state["fresh_offset"], n))
        buffer.close()
        with pytest.raises(echobuf.StateError):
            list(drain(buffer))


def test_an_upstream_may_go_on_longer_than_it_had_when_the_state_was_taken():
    state = state_after(3, 10, closed=False)
    with echobuf.EchoBuffer(SPEC, **OPTIONS) as buffer:
        buffer.load_state_dict(state)
        got = list(pump(buffer, range(state["fresh_offset"], 31), [6]))
    assert got == expected_batches({**OPTIONS, "drop_last": False}, 31)[3:]
