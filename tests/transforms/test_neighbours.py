"""Blur, sharpness, perspective and bicubic resizing, beside the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echobuf import SpecError
from echobuf import transforms as T
from echobuf.transforms.graded import GradedSharpness
from neighbour_chains import NEIGHBOURS
from test_engine_chains import as_expected, check_close, served
from transform_chains import DTYPES, EXACT, Image, chains, images, pixels
from transform_engine import one, rows
from transform_reference import Draw, neighbours, parameters, perspective, transform

pytestmark = pytest.mark.contract

SEEDS = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", NEIGHBOURS, ids=lambda kind: kind.__name__)
@settings(max_examples=12)
@given(st.data(), SEEDS)
def test_each_alone(kind: Any, dtype: np.dtype, data: st.DataObject, seed: int) -> None:
    image = data.draw(images([dtype]))
    leaves = pixels(image, 3, seed % 1000)
    steps = data.draw(chains(image, [kind], most=1))
    for draw, (number, got) in enumerate(served(leaves, steps, "HWC", seed=seed)):
        check_close(got, as_expected(leaves[number], steps, draw, seed), 1)


@settings(max_examples=150)
@given(st.data(), images(), SEEDS, st.sampled_from(["HWC", "CHW"]))
def test_one_among_others(
    data: st.DataObject, image: Image, seed: int, order: str
) -> None:
    """Crops, flips, nearest pixels and rectangles before it and behind it."""
    moves = EXACT[:5]
    leaves = pixels(image, 2, seed % 1000)
    steps = data.draw(chains(image, moves, most=2))
    steps += data.draw(chains(image, NEIGHBOURS, most=1))
    steps += data.draw(chains(image, moves, most=2))
    for draw, (number, got) in enumerate(served(leaves, steps, order, seed=seed)):
        check_close(got, as_expected(leaves[number], steps, draw, seed), 1)


# ---- blur


@pytest.mark.host
@pytest.mark.parametrize("size", [63, 127, 255])
@pytest.mark.parametrize("sigma", [0.01, 1.0, 12.5, 1e6])
def test_large_kernels(size: int, sigma: float) -> None:
    image = np.random.default_rng(3).random((140, 131, 1), np.float32)
    got = one(image, [T.GaussianBlur(size, sigma)])
    want = neighbours.gaussian_blur(
        image.astype(np.float64), kernel_size=(size, size), sigma=sigma
    )
    np.testing.assert_allclose(got, want, atol=1e-6, rtol=0)


@pytest.mark.parametrize("value", [0, 1, 254, 255])
@pytest.mark.parametrize("kernel", [1, (3, 9), 17])
def test_a_plain_image_stays_plain(value: int, kernel: Any) -> None:
    image = np.full((9, 30, 3), value, np.uint8)
    np.testing.assert_array_equal(one(image, [T.GaussianBlur(kernel, (0.1, 9))]), image)


def test_a_kernel_of_one_changes_nothing() -> None:
    image = np.random.default_rng(3).random((1, 7, 3), np.float32)
    np.testing.assert_array_equal(one(image, [T.GaussianBlur(1)]), image)


@pytest.mark.parametrize(
    ("shape", "kernel"), [((5, 9, 3), 11), ((9, 5, 3), (11, 3)), ((5, 9, 3), (3, 11))]
)
def test_an_image_smaller_than_the_border_is_refused(shape: Any, kernel: Any) -> None:
    with pytest.raises(SpecError, match=r"mirrors .* which must have more"):
        one(np.zeros(shape, np.uint8), [T.GaussianBlur(kernel)])


@pytest.mark.host
def test_the_deviation_is_drawn_between_the_bounds() -> None:
    """An impulse is as wide as the deviation of its draw."""
    image = np.zeros((41, 41, 1), np.float32)
    image[20, 20] = 1
    made = [x for _, x in rows([image] * 50, [T.GaussianBlur(41, (1.0, 3.0))], seed=4)]
    at = np.arange(41) - 20
    found = np.array([np.sqrt((x[..., 0].sum(0) * at**2).sum()) for x in made])
    assert found.min() > 0.99
    assert found.max() < 3.01
    assert np.ptp(found) > 1.5


# ---- sharpness


@pytest.mark.parametrize("shape", [(2, 9, 3), (9, 2, 1), (1, 1, 3)])
def test_small_images_stay(shape: Any) -> None:
    image = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    np.testing.assert_array_equal(one(image, [T.Sharpness(3.0)]), image)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_factor_one_and_chance_leave_the_image(dtype: Any) -> None:
    image = np.random.default_rng(1).integers(0, 2, (9, 8, 3)).astype(dtype)
    for operation in (T.Sharpness(1), T.RandomAdjustSharpness(5, p=0)):
        np.testing.assert_array_equal(one(image, [operation]), image)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 31])
def test_graded_sharpness(count: int, signed: bool) -> None:
    levels = tuple(np.linspace(0.0, 0.9, 31, dtype=np.float32)[-count:].tolist())
    images = list(np.random.default_rng(2).integers(0, 256, (20, 7, 9, 3), np.uint8))
    seen = set()
    operation = GradedSharpness(levels, signed)
    for draw, (number, got) in enumerate(rows(images, [operation], seed=8, factor=4)):
        words = Draw(seed=8, epoch=0, draw=draw, op=0)
        what = neighbours.graded_sharpness_parameters(
            words, images[0].shape, levels=levels, signed=signed
        )
        seen.add(what["factor"])
        np.testing.assert_array_equal(got, neighbours.sharpness(images[number], **what))
    assert len(seen) > count * (1.2 if signed else 0.8) * (0.9 if count > 2 else 1)


# ---- perspective


@pytest.mark.parametrize("how", ["nearest", "bilinear"])
@pytest.mark.parametrize("scale", [0.5, 1.0])
@pytest.mark.parametrize("shape", [(17, 23, 3), (8, 8, 1), (40, 6, 3)])
def test_perspectives(shape: Any, scale: float, how: str) -> None:
    """All but pixels that the last bits decide; corners on a line, too."""
    images = list(np.random.default_rng(2).integers(0, 256, (12, *shape), np.uint8))
    options = {"distortion_scale": scale, "interpolation": how, "fill": 9}
    operation = T.RandomPerspective(**options, p=0.8)
    off = sure = 0
    for draw, (number, got) in enumerate(rows(images, [operation], seed=3, factor=4)):
        words = Draw(seed=3, epoch=0, draw=draw, op=0)
        want = transform(
            "RandomPerspective", {**options, "p": 0.8}, words, images[number]
        )
        gap = np.abs(got.astype(int) - want.astype(int))
        counted = np.ones(shape[:2], bool)
        if how == "nearest":
            what = parameters("RandomPerspective", {**options, "p": 0.8}, words, shape)
            counted = ~perspective.near_tie(shape, what["corners"])
        off += (gap[counted] > (1 if how == "bilinear" else 0)).sum()
        sure += counted.mean() / 48
    assert off == 0
    assert sure > 0.8


@pytest.mark.parametrize("shape", [(1, 9, 3), (9, 1, 3), (1, 1, 1)])
def test_an_image_of_one_row_or_column_stays(shape: Any) -> None:
    image = np.random.default_rng(2).random(shape, np.float32)
    made = one(image, [T.RandomPerspective(1.0, p=1.0, fill=5)])
    np.testing.assert_array_equal(made, image)


def test_no_perspective_leaves_every_bit() -> None:
    image = np.array([[np.inf, -0.0, 1e-42], [np.nan, 3e38, 1.0]], np.float32)
    made = one(image[..., None], [T.RandomPerspective(0.5, p=0.0, fill=5)])
    np.testing.assert_array_equal(made[..., 0].view(np.uint32), image.view(np.uint32))


# ---- bicubic


@pytest.mark.parametrize("antialias", [True, False])
def test_overshoot_is_cut_for_integers_only(antialias: bool) -> None:
    image = np.zeros((12, 12, 1), np.uint8)
    image[4:8, 4:8] = 255
    how = {"size": (31, 29), "interpolation": "bicubic", "antialias": antialias}
    whole = one(image, [T.Resize(**how)])
    real = one(image.astype(np.float32), [T.Resize(**how)])
    assert real.min() < -5
    assert real.max() > 260
    np.testing.assert_allclose(whole, np.clip(real, 0, 255), atol=0.51)


# ---- masks
