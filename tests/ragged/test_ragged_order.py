"""Records that differ in length are served as the slow reference says."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from ragged_records import ROW_BYTES, SPEC, cases, check, lengths_of, make, serve
from ragged_reference import (
    factor_bounds,
    ragged_batches,
    ragged_passes,
    uses,
)

import echobuf
from equal_arrays import assert_equal
from schedule_reference import ratio

pytestmark = pytest.mark.contract


def expected(kwargs, lengths, epoch=0):
    return ragged_batches(kwargs, lengths, ROW_BYTES, epoch)


@settings(max_examples=60)
@given(cases())
def test_a_record_is_used_as_often_as_the_factor_says(case):
    kwargs, lengths = case
    sizes = [a * ROW_BYTES[0] + b * ROW_BYTES[1] for a, b in lengths]
    least, most = factor_bounds(kwargs["factor"])
    assert all(
        least <= count <= most
        for count in uses(ragged_passes(kwargs, sizes), len(lengths))
    )


@pytest.mark.parametrize("factor", [1, 3, 2.5])
def test_a_window_holds_no_more_than_the_payload(factor):
    kwargs = {"factor": factor, "window": 30, "seed": 1, "payload_bytes": 700}
    rng = np.random.default_rng(0)
    share = 700 // math.ceil(ratio(factor))
    sizes = rng.integers(0, share + 1, 400).tolist()
    windows = ragged_passes(kwargs, sizes)
    assert max(sum(sizes[record] for record in window) for window in windows) <= 700
    assert max(map(len, windows)) < 30  # the bytes are what ends segments here


def test_the_order_depends_on_nothing_but_what_was_put():
    rng = np.random.default_rng(1)
    lengths = [tuple(pair) for pair in rng.integers(0, 9, (200, 2)).tolist()]
    kwargs = {"window": 20, "factor": 3, "seed": 5, "payload_bytes": 900}
    streams = []
    for more in (
        {"batch_size": 1},
        {"batch_size": 7, "prefetch": 3},
        {"max_rows": 30, "prefetch": 1},
        {"batch_size": 20, "ragged": "padded"},
    ):
        every = {**kwargs, "drop_last": False, **more}
        with make(every) as buffer:
            served = serve(buffer, every, lengths, [5, 0, 16])
        streams.append([number for batch in served for number in batch])
    assert all(stream == streams[0] for stream in streams)
    assert len(streams[0]) == 600


def test_another_length_moves_the_ends_of_segments():
    kwargs = {"window": 8, "factor": 2, "seed": 5, "payload_bytes": 80}
    kwargs |= {"batch_size": 4, "drop_last": False}
    lengths = [(5, 0)] * 24
    longer = [(9, 0), *lengths[1:]]
    assert expected(kwargs, lengths) != expected(kwargs, longer)
    with make(kwargs) as buffer:
        assert serve(buffer, kwargs, longer, [4]) == expected(kwargs, longer)


def test_a_batch_stays_as_it_is_while_others_are_drawn():
    kwargs = {"batch_size": 4, "window": 8, "factor": 2, "payload_bytes": 400}
    lengths = [(number % 5, number % 3) for number in range(40)]
    kept, copies = [], []
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:

        def note(_):
            pass

        original = buffer.next_batch

        def next_batch(**arguments):
            batch = original(**arguments)
            kept.append(batch)
            copies.append(batch["tokens"].values.copy())
            return batch

        buffer.next_batch = next_batch
        serve(buffer, kwargs, lengths, [3], note=note)
    assert len(kept) == 20
    for batch, copy in zip(kept, copies, strict=True):
        assert_equal(batch["tokens"].values, copy)
        assert lengths_of(batch) == [lengths[number] for number in check(batch, kwargs)]
        batch["tokens"].values[:] = 0  # the caller's
