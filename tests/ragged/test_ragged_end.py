"""A state after the last batch is the next epoch's start, and no earlier one is."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_records import make as make_packing
from packed_records import packings, together
from packing_reference import packed_batches
from ragged_records import ROW_BYTES, cases, example, make
from ragged_reference import ragged_batches

from helpers import WAIT_S

FRACTIONS = st.one_of(st.sampled_from([1.5, 2.5, 1.01, 3.3]), st.floats(1, 4))


def epochs(buffer, n, put):
    """Put n records and close, drawing in turn; the epoch after each batch since then.

    Args:
        buffer: the buffer.
        n: the number of records.
        put: puts one of them, or raises `TimeoutError`.

    Returns:
        The number of batches drawn before `close()`, and the epoch of the state then
        and after each later batch.
    """
    done = batches = 0
    while done < n:
        with contextlib.suppress(TimeoutError):
            put(done)
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
            return batches, seen
        seen.append(buffer.state_dict()["epoch"])


@pytest.mark.contract
@settings(max_examples=80)
@given(cases(FRACTIONS))
def test_the_last_batch_ends_the_epoch(case):
    kwargs, lengths = case
    with make(kwargs) as buffer:
        before, seen = epochs(
            buffer,
            len(lengths),
            lambda i: buffer.put(example(i, lengths[i]), timeout=0),
        )
    whole = len(ragged_batches(kwargs, lengths, ROW_BYTES))
    assert seen == [0] * (whole - before) + [1]


@pytest.mark.host
@settings(max_examples=80)
@given(packings())
def test_the_last_batch_of_packed_rows_ends_the_epoch(case):
    kwargs, lengths = case
    with make_packing(kwargs) as buffer:
        before, seen = epochs(
            buffer,
            len(lengths),
            lambda i: buffer.put_batch(together([i], lengths), timeout=0),
        )
    whole = len(packed_batches(kwargs, lengths))
    assert seen == [0] * (whole - before) + [1]
