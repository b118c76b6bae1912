"""Chains with containers through the engine and through the reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echobuf import transforms as T
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


def _as_stored(image: np.ndarray, order: str) -> np.ndarray:
    return image if order == "HWC" else image.transpose(2, 0, 1)
