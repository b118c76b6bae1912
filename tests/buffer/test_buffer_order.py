"""The order of what is served is that of the reference, however it is put and drawn."""

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from helpers import (
    PUT_SIZES,
    SPEC,
    Worker,
    drain,
    expected_batches,
    expected_draws,
    feed,
    ids_of,
    options,
    pump,
)

pytestmark = pytest.mark.contract

COUNTS = st.integers(0, 150)


@settings(deadline=None, max_examples=120)
@given(options(), COUNTS, PUT_SIZES)
def test_batches_are_those_of_the_reference(kwargs, n, sizes):
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        producer = Worker(feed, buffer, range(n), sizes)
        assert list(drain(buffer)) == expected_batches(kwargs, n)
        producer.result()


@settings(deadline=None, max_examples=40)
@given(
    options(), st.lists(st.tuples(COUNTS, st.none() | st.integers(0, 99)), max_size=4)
)
def test_every_epoch_has_its_own_order(kwargs, epochs):
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        assert list(pump(buffer, range(30), [7])) == expected_batches(kwargs, 30)
        now = 0
        for n, epoch in epochs:
            buffer.reset(epoch)
            now = now + 1 if epoch is None else epoch
            assert list(pump(buffer, range(n), [9])) == expected_batches(kwargs, n, now)


@settings(deadline=None, max_examples=40)
@given(options(), COUNTS)
def test_out_is_written_in_the_same_order(kwargs, n):
    kwargs["drop_last"] = True
    size = kwargs["batch_size"]
    out = {
        "id": np.empty(size, np.int64),
        "body": (np.empty((size, 37), np.uint64), np.empty((size, 3, 1), np.uint8)),
    }
    served = []
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        producer = Worker(feed, buffer, range(n), [0, 13])
        for _ in expected_batches(kwargs, n):
            got = buffer.next_batch(out=out, timeout=60)
            assert got["id"] is out["id"]
            served.append(ids_of(out))
        with pytest.raises(StopIteration):
            buffer.next_batch(out=out, timeout=60)
        producer.result()
    assert served == expected_batches(kwargs, n)


@settings(deadline=None, max_examples=40)
@given(options(), st.lists(st.integers(1, 4), min_size=1, max_size=60))
def test_whole_batches_are_echoed_in_the_same_order(kwargs, lengths):
    del kwargs["batch_size"], kwargs["drop_last"]
    spec = {"row": echobuf.Field((4, 2), np.float32)}
    rows = [np.full((length, 2), i, np.float32) for i, length in enumerate(lengths)]

    def produce(buffer: Any) -> None:
        for row in rows:
            buffer.put({"row": row}, timeout=60)
        buffer.close()

    with echobuf.EchoBuffer(spec, unit="batch", **kwargs) as buffer:
        producer = Worker(produce, buffer)
        for number in expected_draws(kwargs, len(rows)):
            np.testing.assert_array_equal(
                buffer.next_batch(timeout=60)["row"], rows[number], strict=True
            )
        with pytest.raises(StopIteration):
            buffer.next_batch(timeout=60)
        producer.result()


@settings(deadline=None, max_examples=30)
@given(options(), COUNTS, st.integers(2, 3))
def test_several_consumers_share_the_same_batches(kwargs, n, consumers):
    got: list[list[int]] = []
    lock = threading.Lock()

    def consume(buffer: Any) -> None:
        for batch in drain(buffer):
            with lock:
                got.append(batch)

    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        workers = [Worker(consume, buffer) for _ in range(consumers)]
        Worker(feed, buffer, range(n), [3, 0, 20]).result()
        for worker in workers:
            worker.result()
    assert sorted(got) == sorted(expected_batches(kwargs, n))
