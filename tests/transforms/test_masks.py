"""Masks beside images: the same random choices, and the nearest pixel."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from echobuf import EchoBuffer, Field, SpecError
from echobuf import transforms as T
from echobuf.transforms import graded
from transform_engine import drawn, one
from transform_reference import Draw, transform

pytestmark = pytest.mark.contract

HEIGHT, WIDTH = 19, 23
COUNT = 12
RANDOM = np.random.default_rng(6)
MASKS = (RANDOM.random((COUNT, HEIGHT, WIDTH)) < 0.4).astype(np.uint8) * 255
PLACES = np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH)


def served(
    chains: dict[str, Any], mask_dtype: Any = np.uint8, **options: Any
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Images and masks in the order of draws; an image is its mask three times."""
    examples = [
        {"image": np.repeat(mask[..., None], 3, 2), "mask": mask.astype(mask_dtype)}
        for mask in MASKS
    ]
    options = {"batch_size": 4, "factor": 2, "seed": 9} | options
    return [
        pair
        for batch in drawn(examples, chains, **options)
        for pair in zip(batch["image"], batch["mask"], strict=True)
    ]


INTERPOLATING = [
    T.RandomResizedCrop(11),
    T.RandomResizedCrop((7, 30), scale=(0.3, 0.9), antialias=False),
    T.Resize(9),
    T.Resize((25, 31)),
    T.RandomRotation(40, interpolation="bilinear"),
    T.RandomAffine(20, translate=(0.2, 0.1), shear=9, interpolation="bilinear"),
    T.RandomPerspective(0.5, p=1.0),
    T.Resize(9, interpolation="bicubic"),
    T.RandomResizedCrop(11, interpolation="bicubic"),
]


@pytest.mark.parametrize("operation", INTERPOLATING, ids=repr)
def test_a_binary_mask_stays_binary(operation: Any) -> None:
    """The image, beside it, gets other values."""
    chains = {"image": [operation], "mask": [T.Mask(), operation]}
    pairs = served(chains)
    assert set(np.unique([mask for _, mask in pairs])) == {0, 255}
    assert len(np.unique([image for image, _ in pairs])) > 20


@pytest.mark.parametrize("operation", INTERPOLATING, ids=repr)
def test_a_mask_moves_with_its_image(operation: Any) -> None:
    """The mask is of the class of its image, wherever that is plain around."""
    smooth = np.kron(MASKS[:, ::8, ::8] // 255, np.ones((8, 8), np.uint8)) * 255
    smooth = smooth[:, :HEIGHT, :WIDTH]
    examples = [
        {"image": np.repeat(mask[..., None], 3, 2), "mask": mask} for mask in smooth
    ]
    chains = {"image": [operation], "mask": [T.Mask(), operation]}
    for batch in drawn(examples, chains, batch_size=4, factor=2, seed=2):
        image, mask = batch["image"][..., 0], batch["mask"]
        plain = (image == 0) | (image == 255)
        assert plain.mean() > 0.2
        assert (image[plain] == mask[plain]).mean() > 0.9


@pytest.mark.parametrize(
    "dtype", [np.uint8, np.int64, np.int32, np.uint16, bool, np.float32, np.float64]
)
@pytest.mark.parametrize(
    "options",
    [
        {"size": 11},
        {"size": (30, 5), "scale": (0.05, 0.2)},
        {"size": 40, "ratio": (0.1, 0.2)},
        {"size": (HEIGHT, WIDTH), "scale": (1, 1), "ratio": (1, 2)},
    ],
)
def test_windows_of_masks_are_the_reference(dtype: Any, options: Any) -> None:
    """Every pixel, of a leaf of any dtype, is that of torchvision's nearest."""
    crop = T.RandomResizedCrop(**options)
    chains = {"image": [crop], "mask": [T.Mask(), crop]}
    places = PLACES % 251 if dtype is np.uint8 else PLACES
    places = places.astype(dtype)
    examples = [{"image": np.zeros((HEIGHT, WIDTH, 3), np.float32), "mask": places}] * 8
    [batch] = drawn(examples, chains, batch_size=8, seed=5)
    for draw in range(8):
        words = Draw(5, 0, draw, 0)
        want = transform(
            "RandomResizedCrop",
            {**options, "interpolation": "nearest"},
            words,
            places[..., None],
        )
        assert batch["mask"].dtype == dtype
        np.testing.assert_array_equal(batch["mask"][draw], want[..., 0])


def test_the_nearest_pixel_without_a_mask() -> None:
    """`interpolation` says so for all leaves."""
    near = T.RandomResizedCrop(11, interpolation="nearest")
    for image, mask in served({"image": [near], "mask": [near]}):
        np.testing.assert_array_equal(image[..., 0], mask)


@pytest.mark.parametrize("shape", [(1, HEIGHT, WIDTH), (HEIGHT, WIDTH, 1)])
def test_chains_around_the_window(shape: tuple[int, ...]) -> None:
    """Crops before it, flips and casts behind it, and both layouts."""
    crop, window = T.RandomCrop(17, padding=3), T.RandomResizedCrop(9)
    flip, cast = T.RandomHorizontalFlip(), T.ToDtype(np.float32)
    near = T.RandomResizedCrop(9, interpolation="nearest")
    for whole in ([crop, window, flip, cast], [cast, window, flip], [window, window]):
        chain = list(whole)
        examples = [{"mask": mask.reshape(shape)} for mask in MASKS]
        made = [
            np.concatenate(
                [b["mask"] for b in drawn(examples, {"mask": steps}, seed=4)]
            )
            for steps in (
                [T.Mask(), *chain],
                [T.Layout("CHW" if shape[0] == 1 else "HWC")]
                + [near if step is window else step for step in chain],
            )
        ]
        np.testing.assert_array_equal(*made)
        assert set(np.unique(made[0])) == {0, 255}


def test_the_class_outside_of_a_mask() -> None:
    """It replaces the fill of operations, which may have one for each channel."""
    turn = T.RandomRotation((45, 45), fill=(1, 2, 3), interpolation="bilinear")
    crop = T.RandomCrop(30, padding=10, fill=(1, 2, 3))
    for operation in (turn, crop):
        chains = {"image": [operation], "mask": [T.Mask(fill=9), operation]}
        classes = {int(x) for _, mask in served(chains) for x in np.unique(mask)}
        assert classes == {0, 9, 255}


# ---- the warning


IMAGE = Field((8, 6, 3), np.uint8)
GREY = Field((8, 6), np.uint8)
CROP = T.RandomResizedCrop(4)
FLIP = T.RandomHorizontalFlip()


def warned(spec: Any, transform: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        EchoBuffer(spec, batch_size=2, window=4, transform=transform).close()
    return found


@pytest.mark.parametrize(
    "mask", [GREY, Field((1, 8, 6), np.uint8), Field((8, 6, 1), np.uint8)]
)
@pytest.mark.parametrize(
    "chains",
    [
        {"image": [CROP], "x": [CROP]},
        {"image": [FLIP], "x": [FLIP, T.Resize(4)]},
        {"image": [CROP, T.ToDtype("float32")], "x": [CROP, T.ToDtype("float32")]},
        {"image": [FLIP], "x": [FLIP, T.RandomRotation(9, interpolation="bilinear")]},
    ],
)
def test_an_interpolated_mask_is_warned_of_once(mask: Field, chains: Any) -> None:
    [warning] = warned({"image": IMAGE, "x": mask}, chains)
    assert warning.category is UserWarning
    for words in ("`transform['x']`", "`transform['image']`", "Mask()"):
        assert words in str(warning.message)
    assert warning.filename == __file__


@pytest.mark.parametrize(
    ("spec", "chains"),
    [
        ({"image": IMAGE, "x": GREY}, {"image": [CROP], "x": [T.Mask(), CROP]}),
        ({"image": IMAGE, "x": GREY}, {"image": [CROP], "x": [T.RandomResizedCrop(4)]}),
        (
            {"image": IMAGE, "x": GREY},
            {"image": [CROP], "x": [T.ToDtype("float32"), CROP]},
        ),
        ({"image": IMAGE, "x": GREY}, {"image": [FLIP], "x": [FLIP]}),
        (
            {"image": IMAGE, "x": GREY},
            {"image": [FLIP], "x": [FLIP, T.RandomRotation(9)]},
        ),
        (
            {"image": IMAGE, "x": GREY},
            {"image": [FLIP], "x": [FLIP, T.Resize(4, interpolation="nearest")]},
        ),
        (
            {"image": IMAGE, "x": Field((8, 6), np.float32)},
            {"image": [CROP], "x": [CROP]},
        ),
        ({"left": GREY, "right": GREY}, {"left": [CROP], "right": [CROP]}),
        ({"left": IMAGE, "right": IMAGE}, {"left": [CROP], "right": [CROP]}),
        ({"x": GREY}, {"x": [CROP], "view": [T.Source("x"), CROP]}),
    ],
)
def test_what_is_no_interpolated_mask_is_not_warned_of(spec: Any, chains: Any) -> None:
    assert not warned(spec, chains)


def test_a_mask_of_a_grey_image_is_known_by_its_name() -> None:
    spec = {"image": GREY, "mask": GREY}
    [warning] = warned(spec, {"image": [CROP], "mask": [CROP]})
    assert "`transform['mask']`" in str(warning.message)


def test_a_mask_of_integers_that_rotations_do_not_take() -> None:
    """They are refused, as ever, and not rounded."""
    chains = {"x": [T.Mask(), T.RandomRotation(9)]}
    with pytest.raises(SpecError, match="takes uint8"):
        warned({"x": Field((8, 6), np.int64)}, chains)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32])
def test_changes_of_colours_leave_masks(dtype: Any) -> None:
    """Also in a container that masks share with their image."""
    mask = np.arange(63).reshape(7, 9).astype(dtype)
    colours = [T.ColorJitter(0.5, 0.5, 0.5, 0.2), T.Normalize([0.5] * 3, 0.1)]
    colours += [T.RandomErasing(p=1.0, value="random"), T.GaussianNoise()]
    colours += [T.Invert(), T.Solarize(100), T.Posterize(2), T.AutoContrast()]
    colours += [T.Equalize(), T.Grayscale(), T.GaussianBlur(5), T.Sharpness(2)]
    colours += [graded.GradedColor((0.5,), "brightness"), graded.GradedPosterize((1,))]
    for operations in (colours, [T.RandomApply(colours[:7], p=1.0)]):
        made = one(mask, [T.Layout("HW"), T.Mask(), *operations])
        np.testing.assert_array_equal(made, mask)
