"""Chains on whole batches of any lengths make what the slow reference makes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ragged_records import PAD
from whole_batches import MOST, batch_cases

from echobuf import EchoBuffer, Field, Padded, Ragged
from echobuf import transforms as T
from equal_arrays import assert_equal
from helpers import WAIT_S, Worker
from transform_reference import Draw, transform

pytestmark = pytest.mark.contract

VOCABULARY = 50_000
MASK = {"mask_token": 4, "vocab_size": VOCABULARY, "p": 0.4, "special_tokens": [3]}
PADS = {"points": PAD["points"], "row": None, "tokens": 3}
SPEC = {
    "points": Field((MOST, None, 3), np.uint8, max_length=300),
    "row": Field((MOST, 5), np.int32),
    "tokens": Field((MOST, None), np.int32, max_length=300),
}


def batch_of(batches, number):
    """A batch, and in `row` five numbers of each example."""
    batch = batches.batch(number, "list")
    row = batch.pop("id")[:, None] * 10 + np.arange(5)
    return {**batch, "row": row.astype(np.int32)}


def expected(example, draw, length):
    """The leaves of an example, of which `draw(op)` is the draw of an operation."""
    points, tokens = example["points"], example["tokens"]
    filling = np.full((max(0, length - len(points)), 3), PADS["points"], np.uint8)
    window = np.concatenate([points, filling])
    if len(points) >= length:
        window = transform("RandomWindow", {"length": length}, draw(0), points)
    masked = transform("TokenMask", MASK, draw(1), tokens) if len(tokens) else tokens
    return {
        "points": window,
        "kept": np.arange(length) < len(points),
        "row": transform("TokenMask", MASK, draw(1), example["row"]),
        "tokens": masked,
    }


@settings(max_examples=40)
@given(batch_cases(), st.integers(1, 12), st.integers(0, 3))
def test_each_example_of_a_batch_is_drawn_with_numbers_of_its_own(case, length, epoch):
    kwargs, batches = case
    window, mask = T.RandomWindow(length), T.TokenMask(**MASK)
    chains = {
        "points": [window],
        "row": [mask],
        "tokens": [mask],
        "kept": [T.Source("points"), window.mask()],
    }
    kwargs |= {"unit": "batch", "transform": chains, "pad_value": PADS}

    def feed(buffer):
        for number in range(len(batches)):
            buffer.put(batch_of(batches, number), timeout=WAIT_S)
        buffer.close()

    with EchoBuffer(SPEC, **kwargs) as buffer:
        buffer.reset(epoch)
        producer = Worker(feed, buffer)
        made = list(buffer)
        producer.result()
    wanted = batches.expected(kwargs, epoch)
    assert len(made) == len(wanted)
    for draw, (batch, ids) in enumerate(zip(made, wanted, strict=True)):
        assert type(batch["tokens"]) is (
            Padded if kwargs["ragged"] == "padded" else Ragged
        )
        put = batch_of(batches, batches.ids.index(ids))
        batch["tokens"] = batch["tokens"].to_list()
        for row in range(len(ids)):
            of_row = {name: leaf[row] for name, leaf in batch.items()}
            example = {name: leaf[row] for name, leaf in put.items()}
            numbers = lambda op: Draw(kwargs["seed"], epoch, draw, op, row)  # noqa: B023, E731
            for name, value in expected(example, numbers, length).items():
                assert_equal(of_row[name], value, name)


@pytest.mark.host
def test_a_function_gets_all_of_a_batch():
    def count(leaf):
        assert type(leaf) is Ragged
        return leaf.lengths.astype(np.int64)

    spec = Field((3, None), np.int32, max_length=4)
    chain = [T.Lambda(count, shape=(), dtype=np.int64)]
    with EchoBuffer(spec, unit="batch", window=2, factor=1, transform=chain) as buffer:
        buffer.put([np.zeros(length, np.int32) for length in (4, 0, 1)])
        buffer.put([np.zeros(2, np.int32)])
        buffer.close()
        made = sorted(batch.tolist() for batch in buffer)
    assert made == [[2], [4, 0, 1]]
