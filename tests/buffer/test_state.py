"""States: JSON-serialisable, checked when loaded, and enough to go on exactly."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from helpers import (
    KWARGS,
    WAIT_S,
    drain,
    example,
    expected_batches,
    ids_of,
    make,
    middle,
    pump,
    stack,
)
from opened_states import opened

pytestmark = pytest.mark.contract


def plain(value):
    """Return True for a value of JSON's own types alone."""
    if type(value) is dict:
        return all(type(key) is str for key in value) and all(
            map(plain, value.values())
        )
    if type(value) is list:
        return all(map(plain, value))
    return value is None or type(value) in (bool, int, float, str)


FACTORS = [1, 2, 2.5, "auto"]


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("factor", FACTORS)
def test_a_state_survives_json_and_is_small(factor, prefetch):
    state, _ = middle(factor=factor, prefetch=prefetch)
    assert plain(state)
    text = json.dumps(state, allow_nan=False)
    assert len(text) < 2000
    assert json.loads(text) == state
    with make(factor=factor) as buffer:
        buffer.load_state_dict(json.loads(text))
        assert buffer.state_dict() == state


def test_taking_a_state_changes_nothing():
    with make() as buffer:
        got = []
        for batch in pump(buffer, range(20), [5]):
            assert buffer.state_dict() == buffer.state_dict()
            got.append(batch)
    assert got == expected_batches(KWARGS, 20)


def test_what_the_order_does_not_depend_on_may_differ():
    state, served = middle()
    with make(prefetch=3, max_factor=2, max_bytes=10**7) as buffer:
        buffer.load_state_dict(state)
        rest = list(pump(buffer, range(state["fresh_offset"], 20), [7]))
    assert served + rest == expected_batches(KWARGS, 20)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_used_buffer_takes_a_state_only_after_reset(prefetch):
    state, served = middle()
    with make(prefetch=prefetch) as buffer:
        buffer.put(example(0))
        with pytest.raises(echobuf.StateError, match="used"):
            buffer.load_state_dict(state)
        buffer.put_batch(stack(range(1, 9)))
        buffer.close()
        assert list(drain(buffer)) == expected_batches(KWARGS, 9)
        with pytest.raises(echobuf.StateError, match="used"):
            buffer.load_state_dict(state)
        buffer.reset()
        buffer.load_state_dict(state)
        rest = list(pump(buffer, range(state["fresh_offset"], 20), [7]))
    assert served + rest == expected_batches(KWARGS, 20)


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("drop_last", [False, True])
def test_after_the_last_batch_the_next_epoch_begins(factor, prefetch, drop_last):
    kwargs = {"factor": factor, "prefetch": prefetch, "drop_last": drop_last}
    with make(**kwargs) as buffer:
        buffer.reset(6)
        for last in pump(buffer, range(21), [5]):
            state = buffer.state_dict()
            assert state["epoch"] in (6, 7), last
        after = buffer.state_dict()
    assert (after["epoch"], after["fresh_offset"]) == (7, 0)
    assert after == state or factor == "auto"  # whose end may come after that batch
    if factor != "auto":
        with make(**kwargs) as buffer:
            buffer.load_state_dict(after)
            got = list(pump(buffer, range(21), [5]))
        assert got == expected_batches({**KWARGS, **kwargs}, 21, 7)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 30), st.integers(20, 60), st.integers(1, 6), st.integers(6, 40))
def test_auto_goes_on_with_the_pass_that_it_was_in(cut, n, batch_size, window):
    kwargs = {"factor": "auto", "batch_size": batch_size, "window": window, "seed": 1}
    with make(**kwargs) as buffer:
        turns = pump(buffer, range(n), [3, 8])
        before = [batch for _, batch in zip(range(cut), turns, strict=False)]
        state = json.loads(json.dumps(buffer.state_dict()))
        rest = list(turns)
    with make(**kwargs) as buffer:
        buffer.load_state_dict(state)
        again = list(pump(buffer, range(state["fresh_offset"], n), [3, 8]))
    if state["epoch"] == 1:
        assert not rest
        return
    position = opened(state)["position"]
    if position and not position["auto"]["waiting"]:
        left = position["resident_end"] - state["fresh_offset"] - position["offset"]
        flat = [number for batch in rest for number in batch]
        flat_again = [number for batch in again for number in batch]
        assert flat_again[:left] == flat[:left]
    uses = Counter(number for batch in before + again for number in batch)
    assert set(range(n)) <= set(uses)
    assert max(uses.values()) <= 8


@pytest.mark.parametrize("unit", ["example", "batch"])
def test_batch_echoing_goes_on_too(unit):
    spec = echobuf.Field((3,), "i8")
    kwargs = {"unit": unit, "window": 4, "factor": 2, "seed": 1}
    kwargs |= {"batch_size": 2} if unit == "example" else {}
    put = [np.full(3 - (unit == "batch" and k == 9), k) for k in range(10)]

    def rest(buffer, items):
        for item in items:
            buffer.put(item, timeout=WAIT_S)
            while buffer.ready() and item is not items[-1]:
                yield buffer.next_batch().tolist()
        buffer.close()
        yield from (batch.tolist() for batch in buffer)

    whole = list(rest(echobuf.EchoBuffer(spec, **kwargs), put))
    first = echobuf.EchoBuffer(spec, **kwargs)
    turns = rest(first, put)
    assert [next(turns) for _ in range(4)] == whole[:4]
    state = first.state_dict()
    second = echobuf.EchoBuffer(spec, **kwargs)
    second.load_state_dict(state)
    assert list(rest(second, put[state["fresh_offset"] :])) == whole[4:]
    assert ids_of(stack([1])) == [1]


def test_the_end_that_a_loaded_state_knows_is_the_end_before_close_says_so():
    with make(factor=1) as buffer:
        buffer.put_batch(stack(range(8)))
        buffer.close()
        first = ids_of(buffer.next_batch(timeout=WAIT_S))
        state = buffer.state_dict()
    with make(factor=1) as buffer:
        buffer.load_state_dict(state)
        buffer.put_batch(stack(range(state["fresh_offset"], 8)))
        rest = ids_of(buffer.next_batch(timeout=0))
        again = buffer.state_dict()
    assert sorted(first + rest) == list(range(8))
    assert (again["epoch"], again["fresh_offset"]) == (1, 0)
