"""Promise 2: within a pass no example comes twice, nor in a batch that fits passes."""

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from helpers import FACTORS, SPEC, Worker, drain, expected_passes, feed, options
from schedule_reference import ratio


def served(kwargs: dict[str, Any], n: int) -> list[list[int]]:
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        producer = Worker(feed, buffer, range(n), [16, 0])
        got = list(drain(buffer))
        producer.result()
    return got


@settings(deadline=None, max_examples=60)
@given(FACTORS, st.integers(1, 6), st.integers(1, 3), st.integers(1, 40), st.data())
def test_no_batch_holds_an_example_twice(factor, size, multiple, segments, data):
    segment = size * multiple
    window = segment * math.ceil(ratio(factor))
    kwargs = {"window": window, "batch_size": size, "factor": factor}
    kwargs["prefetch"] = data.draw(st.integers(0, 2))
    # A last, partial segment moves the batches of the passes that it is part of, so
    # the steady state ends with the first draw of the pass that it enters with.
    n = segments * segment + data.draw(st.integers(0, segment - 1))
    passes = expected_passes(kwargs, n)
    steady = sum(map(len, passes[: n // segment]))
    assert steady % size == 0
    got = served(kwargs, n)
    for batch in got[: steady // size] if n % segment else got:
        assert len(set(batch)) == len(batch)


@settings(deadline=None, max_examples=60)
@given(options(), st.integers(0, 120))
def test_only_a_batch_that_spans_passes_may_hold_one_twice(kwargs, n):
    passes = expected_passes(kwargs, n)
    pass_of = [number for number, window in enumerate(passes) for _ in window]
    drawn = 0
    for batch in served(kwargs, n):
        covered = set(pass_of[drawn : drawn + len(batch)])
        drawn += len(batch)
        most = Counter(batch).most_common(1)[0][1]
        assert most <= len(covered)


@settings(deadline=None, max_examples=40)
@given(options(), st.integers(1, 120))
def test_every_pass_draws_each_of_its_records_once(kwargs, n):
    kwargs["drop_last"] = False
    stream = [number for batch in served(kwargs, n) for number in batch]
    for window in expected_passes(kwargs, n):
        assert sorted(stream[: len(window)]) == window
        del stream[: len(window)]
    assert not stream


@pytest.mark.parametrize("factor", [2, 4, 2.5])
def test_duplicates_stay_rare_when_passes_do_not_fit(factor):
    kwargs = {"window": 1000, "batch_size": 96, "factor": factor, "seed": 5}
    got = served(kwargs, 5000)
    repeated = sum(len(batch) - len(set(batch)) for batch in got)
    assert repeated < len(got)
