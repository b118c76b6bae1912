"""States whose numbers cannot be: refused at once, or served to their end."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from echobuf import state
from echobuf.errors import StateError
from helpers import drain, example, make, middle
from opened_states import opened

KINDS = [{}, {"factor": 2.5}, {"factor": "auto", "max_factor": 4}]
STATES = [opened(middle(**kind)[0]) for kind in KINDS]

numbers = st.one_of(
    st.sampled_from(
        [0, 1, -1, 2**31, 2**32, 2**48, 2**63 - 1, 2**63, 2**64 - 1, 2**64]
    ),
    st.integers(-4, 40),
    st.integers(0, 2**64 - 1),
)
values = st.one_of(numbers, st.none(), st.booleans(), st.floats(), st.text(max_size=3))
words = st.lists(st.tuples(st.integers(0, 30), values), min_size=1, max_size=3)


def places(tree, path=()):
    """Find the numbers in a state: paths of keys."""
    if isinstance(tree, dict):
        return [each for key in tree for each in places(tree[key], (*path, key))]
    if isinstance(tree, list) and tree:
        return [each for i, one in enumerate(tree) for each in places(one, (*path, i))]
    return [path]


def changed(whole, changes):
    """A state with other words, and the checksum that fits them."""
    body = {key: value for key, value in whole.items() if key != "checksum"}
    part = {key: body[key] for key in ("epoch", "fresh_offset", "position")}
    part = _copy(part)
    there = places(part)
    for place, value in changes:
        *way, last = there[place % len(there)]
        node = part
        for key in way:
            node = node[key]
        node[last] = value
    body.update(part)
    return {**body, "checksum": state.checksum_of(body)}


def _copy(tree):
    if isinstance(tree, dict):
        return {key: _copy(value) for key, value in tree.items()}
    return [_copy(each) for each in tree] if isinstance(tree, list) else tree


@pytest.mark.parametrize("kind", range(len(KINDS)))
@settings(max_examples=150)
@given(changes=words)
def test_any_words_are_refused_or_served_to_their_end(kind, changes):
    taken = changed(STATES[kind], changes)
    with make(**KINDS[kind]) as buffer:
        try:
            buffer.load_state_dict(taken)
        except StateError:
            return
        position = taken["position"]
        first = taken["fresh_offset"]
        end = max(first, 0 if position is None else position["resident_end"])
        total = None if position is None else position["upstream_length"]
        length = end + 3 if total is None else total
        if length - first > 100:
            return  # of a long upstream
        served = 0
        for number in range(first, length):
            served += put(buffer, number)
        buffer.close()
        served += sum(map(len, drain(buffer)))
        assert served < 2000


def put(buffer, number):
    """Puts an example; draws where there is no room; how many were drawn."""
    drawn = 0
    while True:
        try:
            buffer.put(example(number), timeout=0)
        except TimeoutError:
            drawn += len(buffer.next_batch(timeout=60)["id"])
        else:
            return drawn


@pytest.mark.parametrize("kind", range(len(KINDS)))
@pytest.mark.parametrize("word", [2**48, 2**63, 2**64 - 2, 2**64 - 1])
def test_a_pass_that_no_epoch_comes_to(kind, word):
    there = [path for path in places(STATES[kind]["position"]) if path == ("pass",)]
    assert there
    position = {**STATES[kind]["position"], "pass": word}
    body = {k: v for k, v in STATES[kind].items() if k != "checksum"}
    body["position"] = position
    taken = {**body, "checksum": state.checksum_of(body)}
    with make(**KINDS[kind]) as buffer, pytest.raises(StateError, match="damaged"):
        buffer.load_state_dict(taken)


def test_the_states_are_good_without_a_change():
    for kind, taken in zip(KINDS, STATES, strict=True):
        with make(**kind) as buffer:
            buffer.load_state_dict(changed(taken, []))
            assert np.isfinite(buffer.stats().served)
    assert issubclass(StateError, echobuf.EchobufError)
