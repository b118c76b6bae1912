"""Rows are packed as the slow reference says."""

import math
from collections import Counter
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from packed_records import check_all, make, packings, serve, together
from packing_reference import PAD, check, example, pack, packed_batches

from helpers import WAIT_S
from schedule_reference import ratio

pytestmark = pytest.mark.contract


@given(packings())
def test_each_example_is_whole_and_used_as_often_as_the_factor_says(case):
    kwargs, lengths = case
    batches = packed_batches({**kwargs, "drop_last": False}, lengths)
    rows = list(chain.from_iterable(batches))
    uses = Counter(chain.from_iterable(row.records for row in rows))
    exact = ratio(kwargs["factor"])
    assert all(
        math.floor(exact) <= uses[number] <= math.ceil(exact)
        for number in range(len(lengths))
    )
    for row in rows:
        taken = [min(lengths[number], kwargs["pack_to"]) for number in row.records]
        assert row.used == sum(taken) <= kwargs["pack_to"]


def many(n=3000, pack_to=64, seed=0):
    """Lengths, of which one in ten is a whole row."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.lognormal(2.5, 1, n).astype(int), pack_to)
    lengths[rng.random(n) < 0.1] = pack_to
    return lengths.tolist()


KWARGS = {
    "window": 300,
    "factor": 2,
    "batch_size": 16,
    "seed": 3,
    "pack_to": 64,
    "drop_last": False,
}


def test_few_places_are_left_empty():
    lengths = many()
    with make(KWARGS) as buffer:
        served = serve(buffer, lengths, [50])
    used = sum(int(batch["tokens"].lengths.sum()) for batch in served)
    places = sum(batch["tokens"].segment_ids.size for batch in served)
    assert used == 2 * sum(lengths)
    assert used / places > 0.95


def test_a_row_is_closed_once_64_others_were_begun():
    # The first row has room for the last record until then.
    for between, shares in ((63, True), (64, False)):
        lengths = [3, *[5] * between, 2]
        rows = pack(range(len(lengths)), lengths, 5)
        assert (rows[0].records == [0, len(lengths) - 1]) is shares
        kwargs = {**KWARGS, "window": 100, "factor": 1, "pack_to": 5, "batch_size": 100}
        with make(kwargs) as buffer:
            served = serve(buffer, lengths, [50])
        check_all(served, packed_batches(kwargs, lengths), kwargs, lengths)


def test_the_first_rows_are_there_before_upstream_has_ended():
    kwargs = {**KWARGS, "window": 50, "factor": 1, "batch_size": 2, "pack_to": 8}
    lengths = [8] * 50
    with make(kwargs) as buffer:
        assert not buffer.ready()
        buffer.put_batch(together(range(50), lengths))
        assert buffer.ready()
        served = [buffer.next_batch(timeout=0) for _ in range(25)]
        assert not buffer.ready()
        with pytest.raises(TimeoutError):
            buffer.next_batch(timeout=0)
        assert buffer.stats().served == 50
        buffer.close()
        assert buffer.ready()
        with pytest.raises(StopIteration):
            buffer.next_batch(timeout=WAIT_S)
    check_all(served, packed_batches(kwargs, lengths), kwargs, lengths)


def test_a_wait_that_runs_out_loses_nothing():
    kwargs = {**KWARGS, "window": 6, "factor": 3, "batch_size": 3, "pack_to": 9}
    lengths = [number * 7 % 10 for number in range(120)]
    served = []
    with make(kwargs) as buffer:

        def draw_all():
            for _ in range(1000):
                ready = buffer.ready()
                try:
                    served.append(buffer.next_batch(timeout=0))
                except TimeoutError:
                    assert not ready
                    return
                except StopIteration:
                    return
                assert ready

        for number, length in enumerate(lengths):
            buffer.put(example(number, length), timeout=0)
            draw_all()
        buffer.close()
        draw_all()
    check_all(served, packed_batches(kwargs, lengths), kwargs, lengths)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_stats_count_the_examples_of_the_rows_that_were_handed_out(prefetch):
    lengths = many(800)
    seen = 0
    with make({**KWARGS, "prefetch": prefetch}) as buffer:

        def note():
            nonlocal seen
            seen += len(batches[len(counts)])
            counts.append(buffer.stats().served)

        counts = []
        batches = [
            [number for row in rows for number in row.records]
            for rows in packed_batches(KWARGS, lengths)
        ]
        serve(buffer, lengths, [50], note=note)
    assert counts == np.cumsum([len(batch) for batch in batches]).tolist()
    assert seen == counts[-1] == 2 * len(lengths)


def test_a_batch_stays_as_it_is_while_others_are_drawn():
    lengths = many(500)
    batches = packed_batches(KWARGS, lengths)
    with make(KWARGS) as buffer:
        served = serve(buffer, lengths, [50])
        check_all(served, batches, KWARGS, lengths)
        served[0]["tokens"].values[:] = -1
        served[0]["tokens"].segment_ids[:] = -1
        check(served[1], batches[1], KWARGS, lengths)
    check_all(served[1:], batches[1:], KWARGS, lengths)


def test_empty_examples_take_a_number_and_no_place():
    kwargs = {**KWARGS, "window": 3, "factor": 1, "pad_value": PAD}
    with make(kwargs) as buffer:
        batch = serve(buffer, [0, 0, 0], [1])
    check_all(batch, packed_batches(kwargs, [0, 0, 0]), kwargs, [0, 0, 0])
    assert batch[0]["tokens"].lengths.tolist() == [0]
    assert (batch[0]["tokens"].values == PAD["tokens"]).all()
