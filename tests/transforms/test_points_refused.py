"""Boxes and points that cannot follow, and chains that let them go astray."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echobuf import EchoBuffer, Field, OptionError, SpecError
from echobuf import transforms as T

IMAGE = Field((20, 30, 3), np.uint8)
BOXES = Field((5, 4), np.float32)
POINTS = Field((5, 2), np.float32)
SPEC = {"boxes": BOXES, "image": IMAGE, "points": POINTS}
CROP, FLIP = T.RandomResizedCrop(8), T.RandomHorizontalFlip()


def make(transform: Any, spec: Any = SPEC) -> None:
    EchoBuffer(spec, batch_size=2, window=4, transform=transform).close()


def boxes(*operations: T.Operation, spec: Any = SPEC) -> None:
    """Make a buffer whose boxes have these operations, and its image, too."""
    chain = [each for each in operations if not isinstance(each, T.Mask)]
    make({"image": chain, "boxes": [T.BoundingBoxes("image"), *operations]}, spec)


# ---- the image


@pytest.mark.parametrize("key", ["imge", 3, ("image", 0), None, ("a", ("b",))])
def test_an_image_that_the_spec_has_not(key: Any) -> None:
    with pytest.raises(
        OptionError, match=r"'boxes'.*which the batches have not.*'image'"
    ):
        make({"boxes": [T.BoundingBoxes(key)]})


@pytest.mark.parametrize("key", ["label", "wave", "clip", "none"])
def test_a_leaf_that_is_no_image(key: str) -> None:
    spec = {
        **SPEC,
        "label": Field((), np.int64),
        "wave": Field((100,), np.float32),
        "clip": Field((4, 8, 8, 3, 2), np.uint8),
        "none": Field((0, 8, 3), np.uint8),
    }
    with pytest.raises(SpecError, match=rf"BoundingBoxes.*There, the image '{key}' is"):
        make({"boxes": [T.BoundingBoxes(key)]}, spec)


@pytest.mark.parametrize("key", ["boxes", "points"])
def test_a_leaf_that_is_boxes_or_points(key: str) -> None:
    chains = {"points": [T.Keypoints("image")], "boxes": [T.BoundingBoxes(key)]}
    with pytest.raises(OptionError, match="which is no image"):
        make(chains)


def test_many_channels_need_a_layout() -> None:
    spec = {**SPEC, "image": Field((9, 20, 30), np.uint8)}
    with pytest.raises(SpecError, match="Layout"):
        make({"boxes": [T.BoundingBoxes("image")]}, spec)
    make({"boxes": [T.BoundingBoxes("image")], "image": [T.Layout("CHW")]}, spec)


# ---- the rows


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (
            Field((5, 5), np.float32),
            r"is for boxes \[N, 4\].*the leaf is float32\[5, 5\]",
        ),
        (Field((), np.float32), r"is for boxes \[N, 4\]"),
        (Field((4, 5), np.int64), r"is for boxes \[N, 4\]"),
        (Field((0, 4), np.float32), "takes one row at least"),
        (Field((5, 4), np.complex64), "takes real numbers"),
        (Field((5, 4), bool), "takes real numbers"),
        (Field((5, 4), "M8[s]"), "takes real numbers"),
    ],
)
def test_a_leaf_that_is_no_boxes(field: Field, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        boxes(FLIP, spec={**SPEC, "boxes": field})


def test_a_leaf_that_is_no_points() -> None:
    with pytest.raises(SpecError, match=r"is for points \[N, 2\]"):
        make({"boxes": [T.Keypoints("image")]})


@pytest.mark.parametrize("first", [FLIP, T.ToDtype("float32")])
def test_they_come_first(first: T.Operation) -> None:
    for kind in (T.BoundingBoxes, T.Keypoints):
        with pytest.raises(SpecError, match="comes first in its chain"):
            make({"boxes": [first, kind("image")]})


def test_they_come_once() -> None:
    with pytest.raises(SpecError, match="comes first in its chain"):
        make({"boxes": [T.BoundingBoxes("image"), FLIP, T.BoundingBoxes("image")]})


# ---- operations


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (T.MixUp(labels=None), "whose boxes and points it cannot mix"),
        (T.CutMix(labels=None), "whose boxes and points it cannot mix"),
        (T.Mask(), "is for masks"),
        (T.TokenMask(1, 5), "is for what is no image"),
        (T.RandomWindow(2), "is for sequences"),
        (T.RandomCrop(25, padding=9, padding_mode="reflect"), "cannot follow"),
        (T.RandomCrop(25, padding=9, padding_mode="symmetric"), "cannot follow"),
        (T.RandomCrop(25), "is larger than the image"),
        (T.Layout("CHW"), "comes too late"),
    ],
)
def test_what_boxes_cannot_follow(operation: T.Operation, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        make({"boxes": [T.BoundingBoxes("image"), operation]})
    assert "There, the image 'image' is uint8[20, 30, 3]" in str(caught.value)


def test_borders_that_repeat_pixels() -> None:
    """Of the edge alone are no second things; a mirror may have no border at all."""
    boxes(T.RandomCrop(25, padding=9, padding_mode="edge"))
    boxes(T.RandomCrop(15, padding=0, padding_mode="reflect"))


def test_what_leaves_boxes_as_they_are() -> None:
    """The image's whole chain fits its boxes, whatever it does to colours."""
    spec = {**SPEC, "image": Field((3, 20, 30), np.uint8)}
    boxes(
        T.Layout("CHW"),
        T.ColorJitter(0.4, 0.4, 0.4, 0.1),
        T.RandomErasing(),
        T.GaussianNoise(),
        CROP,
        T.ToDtype(np.float32, scale=True),
        T.RandomGain(),
        T.Normalize((0.5, 0.4, 0.3), 0.2),
        T.RandomErasing(value="random"),
        T.ToDtype(np.float16),
        T.ToChannelFirst(),
        T.Lambda(lambda x: x),
        spec=spec,
    )


def test_an_operation_of_the_users() -> None:
    """It says nothing of boxes, so they must not be given to it."""
    header = Path(__file__).parents[2] / "examples/custom_operation/vignette.hpp"
    custom = T.Custom(header, "Vignette", {"least": 0.2, "most": 0.8})
    with pytest.raises(SpecError, match="does not say where boxes and points go"):
        boxes(FLIP, custom)


# ---- the warning


def warned(transform: Any, spec: Any = SPEC) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        make(transform, spec)
    return found


BB = T.BoundingBoxes("image")


@pytest.mark.parametrize(
    "chains",
    [
        {"image": [CROP, FLIP], "boxes": [BB, CROP]},
        {"image": [CROP], "boxes": [BB, CROP, FLIP]},
        {"image": [CROP, FLIP], "boxes": [BB, FLIP, CROP]},
        {"image": [CROP], "boxes": [BB, T.RandomResizedCrop(8)]},
        {"image": [T.Resize(8)], "boxes": [BB]},
        {"boxes": [BB, FLIP]},
        {"image": [FLIP, FLIP], "boxes": [BB, FLIP]},
        {"image": [FLIP], "view": [T.Source("image"), CROP], "boxes": [BB, FLIP, CROP]},
    ],
)
def test_boxes_that_go_astray_are_warned_of_once(chains: Any) -> None:
    [warning] = warned(chains)
    assert warning.category is UserWarning
    for words in ("`transform['boxes']`", "`transform['image']`", "same operation"):
        assert words in str(warning.message)
    assert warning.filename == __file__


NEAR = T.RandomCrop(15)


@pytest.mark.parametrize(
    "chains",
    [
        {"image": [CROP, FLIP], "boxes": [BB, CROP, FLIP]},
        {"boxes": [BB]},
        {
            "image": [T.ColorJitter(0.4), FLIP, T.ToDtype("float32")],
            "boxes": [BB, FLIP],
        },
        {"image": [T.Resize(8)], "boxes": [BB, T.Resize(8)]},
        {"image": [T.CenterCrop(8)], "boxes": [BB, T.CenterCrop(8)]},
        {"image": [FLIP], "view": [T.Source("image"), CROP], "boxes": [BB, CROP]},
        {
            "image": [NEAR],
            "view": [T.Source("image"), FLIP],
            "boxes": [BB, NEAR],
            "more": [T.Source("boxes"), T.BoundingBoxes("view"), FLIP],
        },
    ],
)
def test_boxes_that_follow_are_not_warned_of(chains: Any) -> None:
    assert not warned(chains)


def test_boxes_beside_a_grey_image_do_not_make_it_a_mask() -> None:
    """It is interpolated, as boxes of integers are said to move with it."""
    for dtype in (np.float32, np.int64):
        spec = {"image": Field((20, 30), np.uint8), "boxes": Field((5, 4), dtype)}
        assert not warned({"image": [CROP], "boxes": [BB, CROP]}, spec)


# ---- arguments


@pytest.mark.parametrize("outside", [-1, 0, 7.5, np.float32(3), math.nan, np.nan])
def test_numbers_for_rows_that_left(outside: Any) -> None:
    chains = {"boxes": [T.BoundingBoxes("image", outside=outside)]}
    with EchoBuffer(SPEC, batch_size=1, window=1, factor=1, transform=chains) as buffer:
        example = {name: np.zeros(f.shape, f.dtype) for name, f in SPEC.items()}
        buffer.put(example, timeout=10)
        buffer.close()
        [batch] = list(buffer)
    np.testing.assert_array_equal(batch["boxes"], np.full((1, 5, 4), outside, "f4"))


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("outside", math.inf),
        ("outside", "nan"),
        ("outside", None),
        ("outside", 1e39),
        ("outside", (0, 0)),
        ("min_size", -0.5),
        ("min_size", math.nan),
        ("min_size", None),
        ("image", np.zeros((3, 3))),
        ("image", []),
    ],
)
def test_odd_arguments(argument: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"`{argument}` of BoundingBoxes is"):
        T.BoundingBoxes(**{"image": "image", argument: value})
