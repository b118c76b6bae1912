"""Random chains through the engine and through the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echobuf import transforms as T
from transform_chains import (
    CLOSE,
    DTYPES,
    EXACT,
    Image,
    chains,
    images,
    pixels,
    step_of,
)
from transform_engine import Step, chain, expected, rows

SEEDS = st.integers(0, 2**64 - 1)


def served(
    leaves: list[np.ndarray], steps: list[Step], order: str, **options: Any
) -> list[tuple[int, np.ndarray]]:
    """Two draws of each image, [height, width, channels], whichever way it lay."""
    if order == "CHW":
        leaves = [np.ascontiguousarray(leaf.transpose(2, 0, 1)) for leaf in leaves]
    ops = [T.Layout(order), *chain(steps)]
    made = rows(leaves, ops, factor=2, **options)
    assert len(made) == 2 * len(leaves)
    if order == "CHW":
        return [(number, image.transpose(1, 2, 0)) for number, image in made]
    return made


def as_expected(
    leaf: np.ndarray, steps: list[Step], draw: int, seed: int
) -> np.ndarray:
    """`Layout` stands first in the engine and counts as an operation."""
    steps = [("Layout", {}), *map(_as_reference, steps)]
    return expected(leaf, steps, draw, seed=seed)


def _as_reference(step: Step) -> Step:
    """Rounded once, not after each axis; images are clipped unless told."""
    name, options = step
    more = {
        "Resize": {"passes": False},
        "RandomResizedCrop": {"passes": False},
        "GaussianNoise": {"clip": (0, 1)},
    }
    return name, {**options, **more.get(name, {})}


@settings(max_examples=200)
@given(st.data(), images(), SEEDS, st.sampled_from(["HWC", "CHW"]))
def test_exact_chains(data: st.DataObject, image: Image, seed: int, order: str) -> None:
    leaves = pixels(image, 3, seed % 1000)
    steps = data.draw(chains(image))
    for draw, (number, got) in enumerate(served(leaves, steps, order, seed=seed)):
        want = as_expected(leaves[number], steps, draw, seed)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.astype(float), want.astype(float))


def check_close(got: np.ndarray, want: np.ndarray, ties: int) -> None:
    """Next to one another; of integers some pixels by one."""
    assert got.dtype == want.dtype
    gap = np.abs(got.astype(float) - want.astype(float))
    if got.dtype == np.uint8:
        assert gap.max(initial=0) <= ties
        return
    size = np.maximum(1, np.abs(want.astype(float)))
    assert (gap / size).max(initial=0) <= 2 * step_of(got.dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", [*EXACT, *CLOSE], ids=lambda kind: kind.__name__)
@settings(max_examples=8)
@given(st.data(), SEEDS)
def test_each_alone(kind: Any, dtype: np.dtype, data: st.DataObject, seed: int) -> None:
    image = data.draw(images([dtype]))
    leaves = pixels(image, 3, seed % 1000)
    steps = data.draw(chains(image, [kind], most=1))
    ties = 0 if kind in EXACT else 1
    for draw, (number, got) in enumerate(served(leaves, steps, "HWC", seed=seed)):
        check_close(got, as_expected(leaves[number], steps, draw, seed), ties)


@settings(max_examples=120)
@given(st.data(), images(), SEEDS)
def test_one_that_is_close_among_others(
    data: st.DataObject, image: Image, seed: int
) -> None:
    """Pixels are moved before and behind; stages are cut where they must be."""
    moves = EXACT[:5]
    leaves = pixels(image, 2, seed % 1000)
    steps = data.draw(chains(image, moves, most=2))
    steps += data.draw(chains(image, CLOSE, most=1))
    steps += data.draw(chains(image, moves, most=2))
    for draw, (number, got) in enumerate(served(leaves, steps, "HWC", seed=seed)):
        check_close(got, as_expected(leaves[number], steps, draw, seed), 1)


@pytest.mark.parametrize("count", [11, 12, 13, 40])
def test_long_chains_are_cut_into_stages(count: int) -> None:
    """More operations than a stage has room for."""
    image = Image(9, 8, 3, np.dtype(np.uint8))
    leaves = pixels(image, 3, count)
    flips = ["RandomHorizontalFlip", "RandomVerticalFlip"]
    steps: list[Step] = [(flips[i % 2], {"p": 0.5}) for i in range(count)]
    steps += [("RandomErasing", {"p": 1.0, "value": 9})] * (count // 3)
    steps += [("ToDtype", {"dtype": "float16"})]
    steps += [("Normalize", {"mean": [0.5], "std": [1.5]})] * (count // 2)
    for draw, (number, got) in enumerate(served(leaves, steps, "CHW", seed=3)):
        want = as_expected(leaves[number], steps, draw, 3)
        np.testing.assert_array_equal(got, want)
