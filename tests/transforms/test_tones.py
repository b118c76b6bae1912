"""Tones, grey and padding: against the reference, with NaN, of masks, and refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from echobuf import OptionError, SpecError
from echobuf import transforms as T
from transform_chains import Image, pixels
from transform_engine import drawn, one


@pytest.mark.parametrize("name", ["RandomEqualize", "RandomAutocontrast"])
def test_half_of_the_draws_are_changed(name: str) -> None:
    image = np.arange(60, dtype=np.uint8).reshape(4, 5, 3).repeat(9, 0).repeat(9, 1)
    batches = drawn(
        [{"x": image}] * 200, {"x": [getattr(T, name)()]}, batch_size=200, seed=3
    )
    changed = (batches[0]["x"] != image).any(axis=(1, 2, 3)).sum()
    assert 70 <= changed <= 130


def test_what_is_no_number_stays_so_and_does_not_count() -> None:
    image = np.linspace(0.25, 0.5, 48, dtype=np.float32).reshape(4, 4, 3)
    image[1, 2] = np.nan
    for step in ("Invert", "AutoContrast"):
        made = one(image, [(step, {})])
        assert (np.isnan(made) == np.isnan(image)).all()
    stretched = one(image, [("AutoContrast", {})])
    assert np.nanmin(stretched) == 0
    assert np.nanmax(stretched) == 1
    for name, options in (("Solarize", {"threshold": 0.3}), ("Posterize", {"bits": 3})):
        assert (np.isnan(one(image, [(name, options)])) == np.isnan(image)).all()
    zero = np.where(np.isnan(image), np.float32(0), image)
    equal = one(image, [("Equalize", {})])
    np.testing.assert_array_equal(equal, one(zero, [("Equalize", {})]))


def test_infinite_numbers_are_no_error() -> None:
    image = np.full((5, 4, 3), np.inf, np.float32)
    image[::2] = -np.inf
    for name in ("Invert", "AutoContrast", "Equalize", "Grayscale"):
        one(image, [(name, {})])
    one(np.full((5, 4, 3), np.nan, np.float32), [("AutoContrast", {})])


def test_padding_of_a_mask_has_its_fill() -> None:
    mask = np.ones((2, 2), np.int32)
    made = one(mask, [T.Mask(fill=255), T.Pad([1, 0], fill=7)])
    assert made.tolist() == [[255, 1, 1, 255]] * 2


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("int16", (3, 4, 3)), ("complex64", (4, 5)), ("datetime64[s]", (2, 5, 1))],
)
def test_padding_of_any_dtype(dtype: str, shape: tuple[int, ...]) -> None:
    image = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    made = one(image, [T.Pad((1, 2), padding_mode="edge")])
    around = [(2, 2), (1, 1), (0, 0)][: len(shape)]
    np.testing.assert_array_equal(made, np.pad(image, around, mode="edge"))


def test_axes_stay_when_colours_become_grey() -> None:
    image = np.zeros((4, 5, 3), np.uint8)
    assert one(image, [T.Grayscale()]).shape == (4, 5, 1)
    assert one(image, [T.Grayscale(), T.RandomCrop(3)]).shape == (3, 3, 1)
    planes = np.zeros((3, 4, 5), np.uint8)
    assert one(planes, [T.Grayscale()]).shape == (1, 4, 5)
    gray = np.zeros((4, 5), np.uint8)
    assert one(gray, [T.Grayscale()]).shape == (4, 5)
    assert one(gray, [T.ToChannelFirst(), T.Grayscale(3)]).shape == (3, 4, 5)


@pytest.mark.parametrize(
    ("example", "operation", "message"),
    [
        (np.zeros((4, 5, 4), np.uint8), T.Grayscale(), "1 or 3 channels"),
        (np.zeros((4, 5, 2), np.uint8), T.AutoContrast(), "1 or 3 channels"),
        (np.zeros((4, 5), np.uint8), T.Grayscale(3), "ToChannelFirst"),
        (np.zeros((4, 5, 3), np.int16), T.Invert(), "ToDtype"),
        (np.zeros((4, 5, 3), np.uint8), T.Solarize(255.5), "255 at most"),
        (np.zeros((4, 5, 3), np.float32), T.RandomSolarize(2), "1 at most"),
        (np.zeros((4, 5, 3), np.uint8), T.Pad(4, padding_mode="reflect"), "border"),
    ],
    ids=repr,
)
def test_what_does_not_fit(example: np.ndarray, operation: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        one(example, [operation])


@pytest.mark.parametrize(
    "make",
    [
        lambda: T.Grayscale(2),
        lambda: T.Posterize(9),
        lambda: T.Posterize(1.5),
        lambda: T.RandomInvert(1.1),
        lambda: T.Solarize("a"),
        lambda: T.Pad((1, 2, 3)),
        lambda: T.Pad(-1),
        lambda: T.Pad(1, fill=(1, 2), padding_mode="edge"),
    ],
)
def test_arguments_that_no_image_could_have(make: Any) -> None:
    with pytest.raises(OptionError, match="must be"):
        make()


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_grey_of_what_was_turned(interpolation: str) -> None:
    """In one stage, of other channels than before."""
    image = pixels(Image(9, 11, 3, np.dtype(np.uint8)), 1, 5)[0]
    turn = T.RandomRotation((30, 30), interpolation=interpolation)
    turned = one(image, [turn])
    for made in (one(image, [turn, T.Grayscale()]), one(image, [turn, T.Grayscale(3)])):
        want = one(turned, [T.Grayscale()])
        np.testing.assert_array_equal(made, np.broadcast_to(want, made.shape))
