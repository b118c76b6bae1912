"""Random chains through the engine and through the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echobuf import transforms as T
from tone_chains import TONES, equalize
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
from transform_reference import Draw
from transform_reference.clips import transform_clip

SEEDS = st.integers(0, 2**64 - 1)
ORDERS = st.sampled_from(["HWC", "CHW", "THWC", "TCHW"])
FRAMES = st.integers(1, 4)
# Rounded once, not after each axis; images are clipped unless told.
_AS_REFERENCE = {
    "Resize": {"passes": False},
    "RandomResizedCrop": {"passes": False},
    "GaussianNoise": {"clip": (0, 1)},
}


def served(
    leaves: list[np.ndarray], steps: list[Step], order: str, **options: Any
) -> list[tuple[int, np.ndarray]]:
    """Two draws of each image or clip, channels last, whichever way it lay."""
    planar = order.endswith("CHW")
    if planar:
        leaves = [np.ascontiguousarray(np.moveaxis(leaf, -1, -3)) for leaf in leaves]
    made = rows(leaves, [T.Layout(order), *chain(steps)], factor=2, **options)
    assert len(made) == 2 * len(leaves)
    if planar:
        return [(number, np.moveaxis(image, -3, -1)) for number, image in made]
    return made


def as_expected(
    leaf: np.ndarray, steps: list[Step], draw: int, seed: int
) -> np.ndarray:
    """`Layout` stands first in the engine and counts as an operation."""
    told = [(name, {**given, **_AS_REFERENCE.get(name, {})}) for name, given in steps]
    if leaf.ndim == 3:
        return expected(leaf, [("Layout", {}), *told], draw, seed=seed)
    for op, (name, options) in enumerate(told, 1):
        words = Draw(seed=seed, epoch=0, draw=draw, op=op)
        with np.errstate(divide="ignore", invalid="ignore"):
            leaf = transform_clip(name, options, words, leaf)
    return leaf


def stored(
    data: st.DataObject, image: Image, count: int, seed: int, order: str
) -> list[np.ndarray]:
    """Return different images of a kind, or clips of such images."""
    if order[0] != "T":
        return pixels(image, count, seed % 1000)
    frames = pixels(image, data.draw(FRAMES) * count, seed % 1000)
    return [np.stack(frames[i::count]) for i in range(count)]


@settings(max_examples=400)
@given(st.data(), images(), SEEDS, ORDERS)
def test_exact_chains(data: st.DataObject, image: Image, seed: int, order: str) -> None:
    leaves = stored(data, image, 3, seed, order)
    steps = data.draw(chains(image, (*EXACT, *data.draw(st.sampled_from([(), TONES])))))
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
@pytest.mark.parametrize(
    "kind", [*EXACT, *TONES, *CLOSE], ids=lambda kind: kind.__name__
)
@settings(max_examples=8)
@given(st.data(), SEEDS, st.sampled_from(["HWC", "CHW"]))
def test_each_alone(
    kind: Any, dtype: np.dtype, data: st.DataObject, seed: int, order: str
) -> None:
    image = data.draw(images([dtype]))
    if kind is equalize:  # fewer pixels than 255 are left as they are
        image.height, image.width = data.draw(st.integers(12, 40)), 23
    leaves = pixels(image, 3, seed % 1000)
    steps = data.draw(chains(image, [kind], most=2 if kind in TONES else 1))
    ties = 1 if kind in CLOSE else 0
    for draw, (number, got) in enumerate(served(leaves, steps, order, seed=seed)):
        check_close(got, as_expected(leaves[number], steps, draw, seed), ties)


@settings(max_examples=200)
@given(st.data(), images(), SEEDS, st.sampled_from(["HWC", "THWC"]))
def test_one_that_is_close_among_others(
    data: st.DataObject, image: Image, seed: int, order: str
) -> None:
    """Pixels are moved before and behind; stages are cut where they must be."""
    moves = EXACT[:5]
    leaves = stored(data, image, 2, seed, order)
    steps = data.draw(chains(image, moves, most=2))
    steps += data.draw(chains(image, CLOSE, most=1))
    steps += data.draw(chains(image, moves, most=2))
    for draw, (number, got) in enumerate(served(leaves, steps, order, seed=seed)):
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
