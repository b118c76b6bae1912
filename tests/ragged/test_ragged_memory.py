"""Memory of records that differ in length, in the window and in batches."""

import math

import numpy as np
import pytest
from ragged_records import SPEC, check, lengths_of, serve
from ragged_reference import ragged_passes

import echobuf
from equal_arrays import assert_equal
from schedule_reference import ratio

pytestmark = pytest.mark.contract


@pytest.mark.parametrize("factor", [1, 3, 2.5])
def test_a_window_holds_no_more_than_the_payload(factor):
    kwargs = {"factor": factor, "window": 30, "seed": 1, "payload_bytes": 700}
    rng = np.random.default_rng(0)
    share = 700 // math.ceil(ratio(factor))
    sizes = rng.integers(0, share + 1, 400).tolist()
    windows = ragged_passes(kwargs, sizes)
    assert max(sum(sizes[record] for record in window) for window in windows) <= 700
    assert max(map(len, windows)) < 30  # the bytes are what ends segments here


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
