"""Fractional factors: which examples get the extra use changes from epoch to epoch."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from helpers import (
    KWARGS,
    check_uses,
    drain,
    expected_batches,
    feed,
    largest_batch,
    make,
    middle,
    pump,
)
from opened_states import opened, resealed
from schedule_reference import ratio

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("no_leaked_threads")]

EPOCHS = 10
FRACTIONS = st.one_of(
    st.sampled_from([1.5, 2.5, 1.25, 4 / 3, 1.1, 3.3, 1.01, 1.99, Fraction(40, 26)]),
    st.fractions(1, 4, max_denominator=40).filter(lambda e: e.denominator > 1),
    st.floats(1, 4).filter(lambda e: ratio(e).denominator > 1),
)


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of a buffer with a fractional factor."""
    factor = draw(FRACTIONS)
    window = draw(st.integers(math.ceil(ratio(factor)), 24))
    most = largest_batch(window, ratio(factor))
    return {
        "factor": factor,
        "window": window,
        "batch_size": draw(st.integers(-(-most // 2), most)),
        "seed": draw(st.integers(0, 2**64 - 1)),
        "prefetch": draw(st.integers(0, 2)),
    }


FIRST = st.one_of(st.integers(0, 99), st.integers(2**63 - 100, 2**63 - 11))
COUNTS = st.one_of(st.integers(1, 9), st.integers(1, 60))
"""Examples of an epoch; the fewest are less than a segment."""


def example_epochs(n: int) -> list[np.int64]:
    return [np.int64(i) for i in range(n)]


# ---- the promise


@settings(max_examples=40)
@given(options(), COUNTS, FIRST)
def test_a_buffer_spreads_the_extra_use_over_ten_epochs(kwargs, n, first):
    epochs = []
    with echobuf.EchoBuffer(np.zeros((), np.int64), **kwargs) as buffer:
        for number in range(first, first + EPOCHS):
            buffer.reset(number)
            served: list[int] = []
            left = list(example_epochs(n))
            while left:
                try:
                    buffer.put_batch(np.array(left), timeout=0)
                    left = []
                except TimeoutError as error:
                    del left[: error.accepted]
                    served += buffer.next_batch().tolist()
            buffer.close()
            for batch in buffer:
                served += batch.tolist()
            epochs.append(served)
    check_uses(epochs, kwargs, n)


@settings(max_examples=25)
@given(options(), COUNTS, FIRST, st.booleans(), st.booleans())
def test_a_loader_spreads_it_and_knows_each_length(kwargs, n, first, overlap, drop):
    kwargs["drop_last"] = drop
    loader = echobuf.EchoLoader(example_epochs(n), overlap_epochs=overlap, **kwargs)
    loader.set_epoch(first)
    epochs = []
    for _ in range(EPOCHS):
        length = len(loader)
        batches = []
        for batch in loader:
            assert len(loader) == length, "that of the epoch that is running"
            batches.append(batch.tolist())
        assert len(batches) == length
        epochs.append(list(itertools.chain(*batches)))
    if not drop:
        check_uses(epochs, kwargs, n)


def test_three_uses_in_every_two_epochs():
    loader = echobuf.EchoLoader(
        example_epochs(4096), batch_size=256, window=1024, factor=1.5
    )
    for _ in range(2):
        pair = [np.concatenate(list(loader)) for _ in range(2)]
        assert set(Counter(np.concatenate(pair).tolist()).values()) == {3}


def test_the_phase_depends_on_the_seed():
    lengths = {
        len(echobuf.EchoLoader([0] * 8, window=32, factor=1.5, batch_size=1, seed=seed))
        for seed in range(20)
    }
    assert lengths == {8, 16}, "an epoch shorter than a segment"


# ---- the order


@settings(max_examples=40)
@given(options(), COUNTS, st.integers(0, 2**63 - 11), st.lists(st.integers(0, 30)))
def test_the_order_of_each_epoch_is_that_of_the_reference(kwargs, n, first, sizes):
    kwargs["drop_last"] = False
    with make(**kwargs) as buffer:
        for number in range(first, first + 4):
            buffer.reset(number)
            got = list(pump(buffer, range(n), sizes or [7]))
            assert got == expected_batches(kwargs, n, number)


@settings(max_examples=25)
@given(options(), st.integers(2, 60), st.integers(0, 2**63 - 11), st.data())
def test_a_state_within_any_epoch_goes_on_exactly(kwargs, n, number, data):
    whole = echobuf.EchoLoader(example_epochs(n), **kwargs)
    whole.set_epoch(number)
    expected = [batch.tolist() for batch in whole]
    cut = data.draw(st.integers(0, len(expected) - 1))
    loader = echobuf.EchoLoader(example_epochs(n), **kwargs)
    loader.set_epoch(number)
    epoch = iter(loader)
    got = [next(epoch).tolist() for _ in range(cut)]
    state = json.loads(json.dumps(loader.state_dict()))
    resumed = echobuf.EchoLoader(example_epochs(n), **kwargs)
    resumed.load_state_dict(state)
    assert len(resumed) == len(expected)
    assert got + [batch.tolist() for batch in resumed] == expected
    following = [batch.tolist() for batch in whole]
    assert len(resumed) == len(following)
    assert [batch.tolist() for batch in resumed] == following


# ---- what `len` is about

SHORT = {"batch_size": 1, "window": 32, "factor": 1.5, "seed": 2}


def length_of(number: int) -> int:
    """The length of an epoch of four examples, shorter than a segment."""
    loader = echobuf.EchoLoader(example_epochs(4), **SHORT)
    loader.set_epoch(number)
    return len(loader)


def short() -> echobuf.EchoLoader:
    return echobuf.EchoLoader(example_epochs(4), **SHORT)


def test_the_lengths_of_two_epochs_differ():
    assert {length_of(0), length_of(1)} == {4, 8}
    assert [length_of(number) for number in (2, 3)] == [length_of(0), length_of(1)]


def test_the_length_is_that_of_the_epoch_that_runs_or_comes():
    loader = short()
    assert len(loader) == length_of(0)
    epoch = iter(loader)
    assert len(loader) == length_of(0)
    next(epoch)
    loader.set_epoch(5)  # the one after
    assert len(loader) == length_of(0), "one runs"
    assert len(list(epoch)) == length_of(0) - 1
    assert len(loader) == length_of(5)
    assert len(list(loader)) == length_of(5)
    assert len(loader) == length_of(6)


def test_an_epoch_that_was_left_runs_no_more():
    loader = short()
    for _ in loader:
        break
    assert len(loader) == length_of(1) == len(list(loader))


def test_an_iterator_that_has_given_nothing_may_become_another_epoch():
    loader = short()
    epoch = iter(loader)
    loader.set_epoch(3)
    assert len(loader) == length_of(3)
    assert len(list(epoch)) == length_of(3)
    epoch = iter(loader)
    del epoch  # has used up no epoch
    assert len(loader) == length_of(4) == len(list(loader))


def test_the_length_is_that_of_the_state_that_was_loaded():
    loader = short()
    list(loader)
    epoch = iter(loader)
    next(epoch)
    state = loader.state_dict()
    assert state["epoch"] == 1
    resumed = short()
    resumed.load_state_dict(state)
    assert len(resumed) == length_of(1)
    assert len(list(resumed)) == length_of(1) - 1
    assert len(resumed) == length_of(2)
    resumed.load_state_dict(state)
    resumed.set_epoch(2)  # gives the state up
    assert len(resumed) == length_of(2) == len(list(resumed))


# ---- states

FRACTION = {"factor": 2.5, "seed": 1}


def test_a_state_says_its_phase_for_a_fraction_alone():
    state, _ = middle(**FRACTION)
    assert opened(state)["position"]["phase"] in (0, 1)
    state, _ = middle(factor=3)
    assert "phase" not in opened(state)["position"]


def test_a_state_from_before_there_were_phases_is_refused():
    state = opened(middle(**FRACTION)[0])
    del state["position"]["phase"]
    with make(**FRACTION) as buffer:
        with pytest.raises(echobuf.StateError, match="extra use of `factor` 5/2"):
            buffer.load_state_dict(resealed(state))
        producer_done = list(pump(buffer, range(9), [5]))
        assert producer_done == expected_batches({**KWARGS, **FRACTION}, 9)


def test_a_state_between_epochs_from_before_there_were_phases_is_right():
    with make(**FRACTION) as buffer:
        feed(buffer, range(9), [9])
        list(drain(buffer))
        state = buffer.state_dict()
    assert state["position"] == ""
    with make(**FRACTION) as buffer:
        buffer.load_state_dict(state)
        got = list(pump(buffer, range(9), [5]))
        assert got == expected_batches({**KWARGS, **FRACTION}, 9, 1)


def test_a_state_of_another_phase_is_refused():
    state = opened(middle(**FRACTION)[0])
    state["position"]["phase"] ^= 1
    with make(**FRACTION) as buffer, pytest.raises(echobuf.StateError, match="phase"):
        buffer.load_state_dict(resealed(state))
