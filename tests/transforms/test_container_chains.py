"""Chains with containers through the engine and through the reference."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echobuf import EchoBuffer, Field
from echobuf import transforms as T
from helpers import WAIT_S
from transform_chains import Image, images, pixels
from transform_containers import chain, container_chains, expected
from transform_engine import drawn

pytestmark = pytest.mark.contract

SEEDS = st.integers(0, 2**64 - 1)


@settings(max_examples=150)
@given(st.data(), images(), SEEDS, st.sampled_from(["HWC", "CHW"]))
def test_any_chain(data: st.DataObject, image: Image, seed: int, order: str) -> None:
    """A further leaf with the same operations is the same, as it chooses alike."""
    leaves = pixels(image, 3, seed % 1000)
    steps = data.draw(container_chains(image))
    ops = [T.Layout(order), *chain(steps)]
    stored = [np.ascontiguousarray(_as_stored(leaf, order)) for leaf in leaves]
    examples = [{"id": np.int64(i), "x": leaf} for i, leaf in enumerate(stored)]
    transform = {"x": ops, "view": [T.Source("x"), *ops]}
    # `Layout` stands first in the engine and counts as an operation.
    steps = [("Layout", {}), *steps]
    draw = 0
    for batch in drawn(examples, transform, factor=2, seed=seed):
        for number, got, view in zip(*map(batch.get, ("id", "x", "view")), strict=True):
            want = _as_stored(expected(leaves[number], steps, draw, seed=seed), order)
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got.astype(float), want.astype(float))
            np.testing.assert_array_equal(view, got)
            draw += 1
    assert draw == 6


@settings(max_examples=40)
@given(st.data(), images(), SEEDS, st.integers(0, 5))
def test_resumed(data: st.DataObject, image: Image, seed: int, after: int) -> None:
    """A buffer that a state was loaded into goes on as the first one would have."""
    leaves = np.stack(pixels(image, 4, seed % 1000))
    steps = data.draw(container_chains(image))

    def buffer_of(state: Any) -> EchoBuffer:
        buffer = EchoBuffer(
            Field(leaves.shape[1:], leaves.dtype),
            batch_size=2,
            window=4,
            factor=3,
            seed=seed,
            transform=[T.Layout("HWC"), *chain(steps)],
        )
        if state is not None:
            buffer.load_state_dict(json.loads(json.dumps(state)))
        first = 0 if state is None else state["fresh_offset"]
        buffer.put_batch(leaves[first:], timeout=WAIT_S)
        buffer.close()
        return buffer

    with buffer_of(None) as buffer:
        for _ in range(after):
            buffer.next_batch()
        state = buffer.state_dict()
        rest = [np.array(batch) for batch in buffer]
    with buffer_of(state) as buffer:
        resumed = [np.array(batch) for batch in buffer]
    assert len(rest) == len(resumed) == 6 - after
    for batch, want in zip(resumed, rest, strict=True):
        np.testing.assert_array_equal(batch, want)


def _as_stored(image: np.ndarray, order: str) -> np.ndarray:
    return image if order == "HWC" else image.transpose(2, 0, 1)
