"""Operations with levels: which level and sign is drawn, and what it does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from echobuf import OptionError, SpecError
from echobuf import transforms as T
from echobuf.transforms import graded
from transform_engine import one, rows
from transform_reference import Draw, colour, tones, warp

LEVELS = graded.evenly(0.0, 0.9, 31)
IMAGE = np.random.default_rng(4).integers(0, 256, (9, 14, 3), np.uint8)
COLOURS = {
    "brightness": colour.brightness,
    "contrast": colour.contrast,
    "color": colour.saturation,
}


def made(operation: Any, count: int = 40) -> list[np.ndarray]:
    """Draws of one image."""
    return [image for _, image in rows([IMAGE] * count, [operation], seed=5)]


def words(draw: int) -> list[int]:
    return list(Draw(seed=5, epoch=0, draw=draw, op=0).words(0))


@pytest.mark.parametrize("either_sign", [False, True])
@pytest.mark.parametrize("kind", graded.COLORS)
def test_colours(kind: str, either_sign: bool) -> None:
    operation = graded.GradedColor(LEVELS, kind, either_sign=either_sign)
    for draw, image in enumerate(made(operation)):
        level = tones.level(words(draw), LEVELS, either_sign=either_sign)
        np.testing.assert_array_equal(image, COLOURS[kind](IMAGE, 1 + level))


def test_bits_and_thresholds() -> None:
    """Their first word is for the probability, which is 1."""
    bits = (8.0, 3.9, 4.0)
    for draw, image in enumerate(made(graded.GradedPosterize(bits))):
        level = tones.level(words(draw)[1:], bits)
        want = tones.posterize(IMAGE, bits=int(level))
        np.testing.assert_array_equal(image, want)
    for draw, image in enumerate(made(graded.GradedSolarize(LEVELS))):
        thresholds = [255 * level for level in LEVELS]
        level = tones.level(words(draw)[1:], thresholds)
        want = tones.solarize(IMAGE, threshold=level)
        np.testing.assert_array_equal(image, want)


def matrix_of(kind: str, level: float) -> Any:
    """The way back."""
    about = {"shape": IMAGE.shape, "center": (0, 0)}
    degrees = math.degrees(math.atan(level))
    if kind == "shear_x":
        return warp.affine_matrix(**about, angle=0, shear=(degrees, 0))
    if kind == "shear_y":
        return warp.affine_matrix(**about, angle=0, shear=(0, degrees))
    if kind == "rotate":
        return warp.rotation_matrix(IMAGE.shape, angle=level)
    moved = (int(level), 0) if kind == "translate_x" else (0, int(level))
    return warp.affine_matrix(IMAGE.shape, angle=0, translate=moved)


@pytest.mark.parametrize("kind", graded.WARPS)
def test_warps(kind: str) -> None:
    most = {"rotate": 30.0, "translate_x": 6.0, "translate_y": 4.0}.get(kind, 0.3)
    levels = graded.evenly(0.0, most, 7)
    for how in ("nearest", "bilinear"):
        operation = graded.GradedWarp(levels, kind, interpolation=how, fill=7)
        for draw, image in enumerate(made(operation)):
            matrix = matrix_of(kind, tones.level(words(draw), levels, either_sign=True))
            want = warp.warp(IMAGE, matrix, interpolation=how, fill=7).astype(int)
            gap = np.abs(image - want)
            if how == "nearest" and "translate" not in kind:
                gap[warp.near_tie(IMAGE.shape, matrix)] = 0
            assert gap.max() <= (0 if how == "nearest" else 1)


def test_levels_of_an_image() -> None:
    shown = []

    def levels(height: int, width: int) -> tuple[float, ...]:
        shown.append((height, width))
        return (float(width),)

    operation = graded.GradedWarp(levels, "translate_x", either_sign=False, fill=9)
    assert (one(IMAGE, [operation]) == 9).all()
    assert set(shown) == {(9, 14)}


def test_masks_are_warped_to_classes() -> None:
    mask = np.arange(126, dtype=np.uint8).reshape(9, 14)
    operation = graded.GradedWarp((3.0,), "rotate", interpolation="bilinear")
    turned = one(mask, [T.Mask(fill=255), operation])
    assert set(turned.ravel().tolist()) <= {*mask.ravel().tolist(), 255}


def test_what_is_refused() -> None:
    for levels in ((), (0.1,) * 32, (-2.0,), (math.nan,), ("a",)):
        with pytest.raises(OptionError, match="`levels`"):
            one(IMAGE, [graded.GradedColor(levels, "brightness")])
    with pytest.raises(OptionError, match="`kind`"):
        one(IMAGE, [graded.GradedWarp((1.0,), "zoom")])
    with pytest.raises(SpecError, match="1 or 3 channels"):
        one(IMAGE[..., :2].copy(), [graded.GradedColor((0.1,), "color")])
