"""The reference on examples that can be checked by eye."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from transform_reference import crops, dtypes, masks, mixing, resize, warp
from transform_reference.boxes import erased_box, middle_box, padding_for_crop
from transform_reference.draws import random_flip

LINE = np.arange(4, dtype=np.uint8).reshape(1, 4, 1)


@pytest.mark.parametrize(
    ("mode", "padded"),
    [
        ("constant", [9, 9, 9, 0, 1, 2, 3, 9, 9]),
        ("edge", [0, 0, 0, 0, 1, 2, 3, 3, 3]),
        ("reflect", [3, 2, 1, 0, 1, 2, 3, 2, 1]),
        ("symmetric", [2, 1, 0, 0, 1, 2, 3, 3, 2]),
    ],
)
def test_padding(mode: str, padded: list[int]) -> None:
    out = crops.pad(LINE, padding=(3, 0, 2, 0), fill=9, padding_mode=mode)
    assert out.ravel().tolist() == padded


def test_padding_for_crop() -> None:
    """Missing pixels are added on both sides, not shared between them."""
    given = (1, 0, 2, 0)
    assert padding_for_crop((5, 6), (8, 7), given, if_needed=True) == (1, 3, 2, 3)
    assert padding_for_crop((5, 6), (8, 7), given, if_needed=False) == given


def test_center_crop_at_the_even_place() -> None:
    tops = []
    for rows in (5, 7, 9):
        image = np.arange(rows).reshape(rows, 1, 1)
        tops.append(int(crops.center_crop(image, size=(4, 1))[0, 0, 0]))
    assert tops == [0, 2, 2]


def test_middle_box() -> None:
    assert middle_box(10, 40, (3 / 4, 4 / 3)) == {
        "top": 0,
        "left": 13,
        "height": 10,
        "width": 13,
    }


def test_half_the_size_is_the_mean_of_pairs() -> None:
    image = np.array([0, 10, 20, 31], np.uint8).reshape(1, 4, 1)
    plain = resize.resize(image, size=(1, 2), antialias=False)
    assert plain.ravel().tolist() == [5, 26]
    # Triangles of four, cut at the ends: (3, 3, 1) / 7 and (1, 3, 3) / 7.
    wide = resize.resize(image, size=(1, 2), antialias=True)
    assert wide.ravel().tolist() == [round(50 / 7), round(163 / 7)]


def test_weights_are_fixed_point() -> None:
    """The integers add up to one but for their own rounding."""
    for size, new in ((13, 7), (7, 13), (256, 224), (500, 9)):
        matrix, bits = resize.fixed_point(resize.weights(size, new, antialias=True))
        assert matrix.max() < 2**15
        taps = (matrix > 0).sum(axis=1)
        assert (np.abs(matrix.sum(axis=1) - 2**bits) <= taps).all()


def test_rotation_is_counter_clockwise_and_affine_is_not() -> None:
    image = np.arange(25, dtype=np.uint8).reshape(5, 5, 1)
    turned = np.rot90(image)
    assert (warp.rotate(image, angle=90) == turned).all()
    assert (warp.affine(image, angle=-90) == turned).all()
    # About a centre that is given it is no special case, and comes to the same.
    assert (warp.rotate(image, angle=90, center=(2.5, 2.5)) == turned).all()


def test_translation_moves_right_and_down() -> None:
    image = np.arange(12, dtype=np.uint8).reshape(3, 4, 1)
    moved = warp.affine(image, angle=0, translate=(1, 2), fill=99)[..., 0]
    assert moved.tolist() == [[99] * 4, [99] * 4, [99, 0, 1, 2]]


def test_bfloat16_rounds_half_to_even() -> None:
    values = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -3.0], np.float32)
    assert dtypes.to_bfloat16(values).tolist() == [1, 1 + 2**-6, 1 + 2**-7, -3]
    assert dtypes.to_bfloat16(np.float32([3.4e38, np.inf])).tolist() == [np.inf, np.inf]
    assert np.isnan(dtypes.to_bfloat16(np.float32([np.nan]))).all()


def test_masks() -> None:
    tokens = np.array([5, 6, 7])
    selected = np.array([True, False, True])
    out = masks.token_mask(tokens, selected=selected, instead=np.array([1, 2, 3]))
    assert out.tolist() == [1, 6, 3]
    assert masks.token_labels(tokens, selected=selected).tolist() == [5, -100, 7]
    bands = masks.spec_mask(np.ones((3, 4)), frequencies=[(1, 1)], times=[(2, 2)])
    assert bands.tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0]]


def test_gain_and_window() -> None:
    assert mixing.gain(np.float32([1, -2]), gain=0.5).tolist() == [0.5, -1]
    assert crops.window(LINE, start=1, length=2, axis=1).ravel().tolist() == [1, 2]


def test_probability_is_below_not_at() -> None:
    """u == p does nothing, or p=0 would do something once in a while."""
    zeros = {"uniforms": lambda _: [0.0] * 4, "words": lambda _: [0] * 4}
    at = SimpleNamespace(**zeros, choices=zeros["uniforms"])
    assert not random_flip(at, (2, 2, 1), p=0.0)["flip"]
    assert random_flip(at, (2, 2, 1), p=2**-32)["flip"]
    range_ = {"scale": (0.25, 1), "ratio": (1, 1)}
    assert erased_box(at, (8, 8, 1), p=0.0, **range_) is None
    assert erased_box(at, (8, 8, 1), p=2**-32, **range_) == (0, 0, 4, 4)
