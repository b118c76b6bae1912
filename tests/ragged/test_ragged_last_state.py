"""A state taken after the last batch is the start of the next epoch."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packing_reference import pack
from ragged_reference import ragged_batches, ragged_draws

from echobuf import EchoBuffer, Field
from helpers import Worker

SPEC = {"t": Field((None,), np.int32)}
LENGTHS = st.lists(st.integers(0, 9), max_size=30)
FORMS = ["packed", "padded", "max_rows", "pack_to"]


@st.composite
def arguments_of(draw, form):
    factor = draw(st.sampled_from([1, 2, 3, 1.25, 1.5, 2.5]))
    window = draw(st.integers(math.ceil(factor), 12))
    largest = math.floor(factor) * (window // math.ceil(factor))
    kwargs = {
        "batch_size": draw(st.integers(1, largest)),
        "window": window,
        "factor": factor,
        "payload_bytes": math.ceil(factor) * draw(st.integers(48, 200)),
        "drop_last": draw(st.booleans()),
        "seed": draw(st.integers(0, 5)),
    }
    if form == "padded":
        kwargs["ragged"] = "padded"
    if form == "max_rows":
        more = {"batch_size": None, "max_rows": draw(st.integers(1, 30))}
        kwargs.update(more, drop_last=False)
    if form == "pack_to":
        kwargs["pack_to"] = draw(st.integers(9, 14))
    return kwargs


def count_batches(kwargs, lengths):
    if "pack_to" not in kwargs:
        return len(ragged_batches(kwargs, [(length,) for length in lengths], (4,)))
    draws = ragged_draws(kwargs, [4 * length for length in lengths])
    rows = len(pack(draws, lengths, kwargs["pack_to"]))
    size = kwargs["batch_size"]
    return rows // size if kwargs["drop_last"] else -(-rows // size)


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("form", FORMS)
@given(st.data())
def test_after_the_last_batch_the_next_epoch_begins(form, prefetch, data):
    kwargs = data.draw(arguments_of(form))
    lengths = data.draw(LENGTHS)
    count = count_batches(kwargs, lengths)
    with EchoBuffer(SPEC, prefetch=prefetch, **kwargs) as buffer:

        def put():
            for length in lengths:
                buffer.put({"t": np.zeros(length, np.int32)})
            buffer.close()

        producer = Worker(put)
        for number in range(count):
            if number:
                assert buffer.state_dict()["epoch"] == 0
            buffer.next_batch()
        # With `drop_last` a producer may wait for room in front of draws that are given
        # up; upstream has not ended then.
        if not kwargs["drop_last"]:
            producer.result()
        producer.join(0.02)
        if not producer.is_alive():
            assert buffer.state_dict()["epoch"] == 1
        with pytest.raises(StopIteration):
            buffer.next_batch()
        producer.result()
        state = buffer.state_dict()
        assert (state["epoch"], state["fresh_offset"]) == (1, 0)


@pytest.mark.parametrize("form", ["packed", "pack_to"])
def test_draws_that_are_given_up_end_the_epoch(form):
    """Cases in which an upper bound of the draws left says that a batch is left."""
    kwargs = {"batch_size": 3, "window": 12, "factor": 1.25, "payload_bytes": 260}
    lengths = [0, 1, 7, 9, 6, 6, 8]
    if form == "pack_to":
        kwargs.update(batch_size=7, window=11, factor=2, payload_bytes=356, pack_to=13)
        lengths = [5, 6, 8, 8, 1, 2, 4, 2, 1, 7, 0, 8, 7, 3, 7, 2, 0, 4, 1, 2, 1]
    kwargs.update(seed=4, drop_last=True)
    count = count_batches(kwargs, lengths)
    assert count > 0
    buffer = EchoBuffer(SPEC, **kwargs)
    producer = Worker(
        lambda: [buffer.put({"t": np.zeros(n, np.int32)}) for n in lengths]
    )
    for _ in range(count):
        buffer.next_batch()
    producer.result()
    assert buffer.state_dict()["epoch"] == 0  # upstream may go on
    buffer.close()
    state = buffer.state_dict()
    assert state["epoch"] == 1
    again = EchoBuffer(SPEC, **kwargs)
    again.load_state_dict(state)
    again.put_batch({"t": [np.zeros(n, np.int32) for n in lengths[:2]]})
    assert again.stats().fresh == 2
