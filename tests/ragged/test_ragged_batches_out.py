"""`out=` of `next_batch` for whole batches with ragged leaves."""

import numpy as np
import pytest
from hypothesis import given, settings
from whole_batches import MOST, Batches, batch_cases, make, spec

import echobuf
from echobuf import Padded, Ragged
from equal_arrays import assert_equal
from helpers import WAIT_S, Worker

pytestmark = pytest.mark.contract

ROWS = 700
"""That no batch has more of."""


def memory(form, rows=ROWS):
    """Arrays with room for any batch."""
    out = {"id": np.full(MOST, -1)}
    for name, rest in (("tokens", ()), ("points", (3,))):
        lead = (MOST, rows) if form == "padded" else (rows,)
        values = np.ones((*lead, *rest), spec()[name].dtype)
        index = np.zeros(MOST + (form != "padded"), np.int64)
        out[name] = Padded(values, index) if form == "padded" else Ragged(values, index)
    return out


@settings(max_examples=25)
@given(batch_cases())
def test_batches_are_those_that_are_drawn_without_out(case):
    kwargs, batches = case
    out = memory(kwargs["ragged"])
    served = []

    def feed(buffer):
        batches.put_all(buffer, range(len(batches)), [0])
        buffer.close()

    with make(kwargs) as buffer:
        producer = Worker(feed, buffer)
        while True:
            try:
                got = buffer.next_batch(out=out, timeout=WAIT_S)
            except StopIteration:
                break
            ids = got["id"].tolist()
            assert (got is out) == (len(ids) == MOST)
            put = batches.batch(batches.ids.index(ids), "list")
            for name in ("tokens", "points"):
                assert len(got[name].to_list()) == len(ids)
                for one, wanted in zip(got[name].to_list(), put[name], strict=True):
                    assert_equal(one, wanted)
            served.append(ids)
        producer.result()
    assert served == batches.expected(kwargs)


@pytest.mark.parametrize("form", ["packed", "padded"])
def test_too_few_rows_are_named_and_the_batch_comes_next(form):
    batches = Batches([[(5, 0), (2, 1)]])
    kwargs = {"window": 1, "factor": 1, "payload_bytes": 100, "ragged": form}
    with make(kwargs) as buffer:
        batches.put_all(buffer, [0], [0])
        buffer.close()
        need = 7 if form == "packed" else 5
        said = rf"out\['tokens'\].values` has {need - 1} rows .* has {need}"
        with pytest.raises(echobuf.SpecError, match=said):
            buffer.next_batch(out=memory(form, need - 1), timeout=WAIT_S)
        got = buffer.next_batch(out=memory(form, need), timeout=WAIT_S)
        assert got["id"].tolist() == [0, 1]
        assert got["tokens"].lengths.tolist() == [5, 2]
