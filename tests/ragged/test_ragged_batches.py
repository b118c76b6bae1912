"""Whole batches with ragged leaves are served as the slow reference says."""

import collections
import threading

import numpy as np
import pytest
from hypothesis import strategies as st
from ragged_records import PAD
from whole_batches import MOST, Batches, make

import echobuf
from echobuf import Field, Padded, Ragged
from equal_arrays import assert_equal
from helpers import WAIT_S, Worker

pytestmark = pytest.mark.contract

SIZES = st.lists(st.integers(0, 9), min_size=1, max_size=4)
"""Of what is put in turn; 0 stands for one batch by `put`."""


def some_batches(count):
    """Batches of one to four examples, of different lengths; some are empty."""
    return Batches(
        [
            [
                ((n * 7 + i) % 11 * (n % 5 > 0), (n + 3 * i) % 6)
                for i in range(1 + n % 4)
            ]
            for n in range(count)
        ]
    )


@pytest.mark.parametrize("ragged", ["packed", "padded"])
@pytest.mark.parametrize("prefetch", [0, 2])
def test_each_batch_is_used_as_often_as_the_factor_says_whatever_threads_do(
    ragged, prefetch
):
    batches, producers = some_batches(300), 3
    kwargs = {"window": 20, "factor": 3, "payload_bytes": 3000, "ragged": ragged}
    kwargs |= {"prefetch": prefetch}
    counts, adding = collections.Counter(), threading.Lock()

    def consume(buffer):
        while True:
            try:
                batch = buffer.next_batch(timeout=WAIT_S)
            except StopIteration:
                return
            ids = batches.check(batch, kwargs)
            with adding:
                counts.update([batches.ids.index(ids)])

    with make(kwargs) as buffer:
        numbers = [range(first, 300, producers) for first in range(producers)]
        putting = [Worker(batches.put_all, buffer, each, [0, 3]) for each in numbers]
        drawing = [Worker(consume, buffer) for _ in range(2)]
        for worker in putting:
            worker.result()
        buffer.close()
        for worker in drawing:
            worker.result()
    assert counts == dict.fromkeys(range(300), 3)


def test_auto_serves_each_batch_and_no_more_often_than_it_may():
    batches = some_batches(120)
    kwargs = {"window": 16, "factor": "auto", "max_factor": 3, "payload_bytes": 4000}
    with make(kwargs) as buffer:
        served = batches.serve(buffer, kwargs, [0, 5])
    counts = collections.Counter(batches.ids.index(ids) for ids in served)
    assert set(counts) == set(range(120))
    assert max(counts.values()) <= 3


def test_the_order_is_that_of_whole_batches_of_fixed_leaves():
    """Lengths change nothing while the payload ends no segment."""
    batches = some_batches(50)
    kwargs = {"window": 12, "factor": 2.5, "seed": 5}
    with make(kwargs, payload_bytes=10**6) as buffer:
        served = batches.serve(buffer, kwargs, [0, 5])
    field = Field((MOST,), np.int64)
    with echobuf.EchoBuffer(field, unit="batch", **kwargs) as buffer:

        def feed():
            for ids in batches.ids:
                buffer.put(np.array(ids), timeout=WAIT_S)
            buffer.close()

        producer = Worker(feed)
        assert [ids.tolist() for ids in buffer] == served
        producer.result()


@pytest.mark.parametrize("ragged", ["packed", "padded"])
def test_a_batch_of_no_examples_is_one_of_no_examples(ragged):
    empty = {"id": np.zeros(0, np.int64), "tokens": [], "points": []}
    kwargs = {"window": 2, "factor": 2, "payload_bytes": 400, "ragged": ragged}
    with make(kwargs) as buffer:
        buffer.put(empty)
        buffer.put(some_batches(1).batch(0))
        buffer.close()
        served = list(buffer)
    assert sorted(len(batch["id"]) for batch in served) == [0, 0, 1, 1]
    for batch in served:
        for name, shape in (("tokens", ()), ("points", (3,))):
            assert len(batch[name].lengths) == len(batch["id"])
            assert len(batch[name].to_list()) == len(batch["id"])
            lead = 1 if ragged == "packed" else 2
            assert batch[name].values.shape[lead:] == shape


@pytest.mark.parametrize("form", ["packed", "padded"])
def test_batches_of_a_single_leaf_need_no_structure(form):
    arrays = [np.arange(length, dtype=np.int32) for length in (3, 0, 5)]
    field = Field((3, None), np.int32, max_length=5)
    with echobuf.EchoBuffer(
        field, unit="batch", window=2, factor=1, ragged=form
    ) as buffer:
        buffer.put(arrays)
        buffer.close()
        batch = buffer.next_batch(timeout=WAIT_S)
    assert type(batch) is (Padded if form == "padded" else Ragged)
    for made, array in zip(batch.to_list(), arrays, strict=True):
        assert_equal(made, array)


def test_a_batch_stays_as_it_is_while_others_are_drawn():
    batches = some_batches(30)
    kwargs = {"window": 4, "factor": 2, "payload_bytes": 2000}
    kept = []
    with make(kwargs) as buffer:
        original = buffer.next_batch

        def next_batch(**arguments):
            kept.append(original(**arguments))
            return kept[-1]

        buffer.next_batch = next_batch
        served = batches.serve(buffer, kwargs, [0])
    assert len(kept) == 60
    assert [batches.check(batch, kwargs) for batch in kept] == served


def test_statistics_are_of_examples():
    batches = Batches([[(2, 1), (6, 3)], [(4, 2)], [(0, 0), (0, 0), (4, 2)]])
    kwargs = {"window": 3, "factor": 2, "payload_bytes": 400, "ragged": "padded"}
    with make(kwargs, pad_value=PAD) as buffer:
        batches.serve(buffer, {**kwargs, "pad_value": PAD}, [0])
        stats = buffer.stats()
    assert (stats.fresh, stats.served) == (3, 6)
    assert stats.mean_rows == pytest.approx((16 + 8) / 2 / 6)
    padded, filled = (2 * 6 + 4 + 3 * 4) * 1.5, (8 + 4 + 4) * 1.5
    assert stats.padding_share == pytest.approx(1 - filled / padded)


def test_the_memory_is_counted_before_it_is_taken():
    kwargs = {"window": 8, "factor": 2, "payload_bytes": 4000}
    with make(kwargs) as buffer:
        taken = buffer.stats()
    own = max(taken.bytes_device, taken.bytes_host)
    assert own >= 4000
    with pytest.raises(echobuf.CapacityError, match="`max_bytes`"):
        make(kwargs, max_bytes=own // 2)
    with pytest.raises(echobuf.CapacityError, match="`max_bytes`"):
        make(kwargs, max_bytes=3000)
