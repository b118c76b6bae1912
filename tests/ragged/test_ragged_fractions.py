"""Fractional factors where examples differ in length: the promise, epoch by epoch."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ragged_records import ROW_BYTES, check, make, put_all
from ragged_reference import ragged_passes

from helpers import WAIT_S, Worker, check_uses
from schedule_reference import ratio

pytestmark = pytest.mark.contract

EPOCHS = 10
FRACTIONS = st.one_of(
    st.sampled_from([1.5, 2.5, 1.25, 4 / 3, 1.1, 1.3, 3.3, 1.01, 1.99]),
    st.fractions(1, 4, max_denominator=40).filter(lambda e: e.denominator > 1),
)


@st.composite
def tokens_of_epochs(draw, most):
    """Arguments of a buffer, and the lengths of examples: segments end either way."""
    factor = draw(FRACTIONS)
    parts = math.ceil(ratio(factor))
    kwargs = {"factor": factor, "seed": draw(st.integers(0, 2**64 - 1))}
    kwargs["window"] = draw(st.integers(parts, 40))
    share = draw(st.integers(10, 60))  # rows
    kwargs["payload_bytes"] = share * ROW_BYTES[0] * parts
    runs = st.tuples(st.sampled_from([0, 3, 10]), st.integers(1, 20))
    runs = draw(st.lists(runs, min_size=1, max_size=most // 10))
    lengths = [draw(st.integers(0, top)) for top, count in runs for _ in range(count)]
    return kwargs, lengths[:most]


@settings(max_examples=60)
@given(tokens_of_epochs(120), st.integers(0, 2**63 - 11))
def test_draws_are_the_factor_but_for_one_segment_as_the_reference_says(case, first):
    kwargs, lengths = case
    sizes = [length * ROW_BYTES[0] for length in lengths]
    epochs = [
        list(itertools.chain.from_iterable(ragged_passes(kwargs, sizes, epoch)))
        for epoch in range(first, first + EPOCHS)
    ]
    check_uses(epochs, kwargs, len(lengths))


@settings(max_examples=8)
@given(tokens_of_epochs(60), st.integers(1, 3))
def test_draws_of_ten_epochs_are_the_factor_but_for_one_segment(case, size):
    kwargs, lengths = case
    kwargs = {**kwargs, "max_rows": 10 * size}
    both = [(length, 0) for length in lengths]
    numbers = range(len(lengths))

    def feed():
        put_all(buffer, numbers, both, [7, 0, 12])
        buffer.close()

    epochs = []
    with make(kwargs) as buffer:
        for epoch in range(EPOCHS):
            producer = Worker(feed)
            served = []
            while True:
                try:
                    served += check(buffer.next_batch(timeout=WAIT_S), kwargs)
                except StopIteration:
                    break
            producer.result()
            epochs.append(served)
            if epoch < EPOCHS - 1:
                buffer.reset()
    check_uses(epochs, kwargs, len(lengths))


def test_segments_much_smaller_than_the_window_says():
    """The payload is what ends all segments: draws differ by less than a record."""
    kwargs = {"window": 100_000, "factor": 1.5, "payload_bytes": 1000, "seed": 3}
    sizes = [(number * 37 % 20) * ROW_BYTES[0] for number in range(999)]
    for epoch in range(4):
        passes = ragged_passes(kwargs, sizes, epoch)
        # The last segment, which nothing ended, lives as a whole.
        short = [number for window in passes for number in window if number < 950]
        assert abs(len(short) - 950 * 1.5) <= 1
