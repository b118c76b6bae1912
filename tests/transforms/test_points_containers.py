"""Containers that an image, its mask, boxes and points share."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echobuf import EchoBuffer, Field, SpecError
from echobuf import transforms as T
from test_points import rows_of
from transform_chains import Image, images, pixels
from transform_containers import chain, containers, expected
from transform_engine import Step, drawn
from transform_reference import Draw, parameters, points, transform
from transform_reference.containers import carried_out

pytestmark = pytest.mark.contract

DRAWS = 4
MOVES = ("RandomCrop", "RandomHorizontalFlip", "RandomVerticalFlip", "Resize")


def resized(draw: st.DrawFn, image: Image) -> Step:
    """A choice between ways to one size."""
    size = draw(st.integers(3, 12)), draw(st.integers(3, 12))
    image.height, image.width = size
    ways: list[Any] = [
        ("Resize", {"size": size, "interpolation": "nearest-exact"}),
        ("RandomCrop", {"size": size, "pad_if_needed": True}),
        [
            ("RandomHorizontalFlip", {"p": 1.0}),
            ("Resize", {"size": size, "interpolation": "nearest"}),
        ],
    ]
    return "RandomChoice", {"transforms": draw(st.permutations(ways))}


@st.composite
def shared_chains(draw: st.DrawFn, image: Image) -> list[Step]:
    steps = [draw(containers(image))]
    if draw(st.booleans()):
        steps.append(resized(draw, image))
    if draw(st.booleans()):
        steps.append(draw(containers(image, 1)))
    return steps


def names_in(steps: Any) -> set[str]:
    """Those of all operations, inside of containers, too."""
    found: set[str] = set()
    for step in steps:
        if isinstance(step, list):
            found |= names_in(step)
        else:
            name, options = step
            found |= {name} | names_in(options.get("transforms", ()))
    return found


def followed(
    rows: np.ndarray, image: Image, steps: list[Step], draw: int, seed: int
) -> np.ndarray:
    """Return the reference's rows; operations are numbered from 1 on."""
    shape: tuple[int, ...] = (image.height, image.width, image.channels)

    def draw_of(number: int) -> Draw:
        return Draw(seed=seed, epoch=0, draw=draw, op=number)

    for name, options, number in carried_out(steps, draw_of, itertools.count(1)):
        if name in points.FOLLOW:
            what = parameters(name, options, draw_of(number), shape)
            rows, shape = points.follow(name, rows, what, shape)
    return points.sanitize(rows, shape, min_size=0.0)


def moved(mask: np.ndarray, steps: list[Step], draw: int, seed: int) -> np.ndarray:
    """Return the reference's mask, [height, width]; what is outside of it is 0."""

    def draw_of(number: int) -> Draw:
        return Draw(seed=seed, epoch=0, draw=draw, op=number)

    out = mask[..., None]
    for name, options, number in carried_out(steps, draw_of, itertools.count(1)):
        if name in MOVES:
            given_ = {**options, "fill": 0} if name == "RandomCrop" else options
            out = transform(name, given_, draw_of(number), out)
    return out[..., 0]


@settings(max_examples=120)
@given(st.data(), images(), st.integers(0, 2**64 - 1))
def test_all_of_them_make_the_same_choices(
    data: st.DataObject, image: Image, seed: int
) -> None:
    """And each is the reference's, exactly."""
    at_first = replace(image)
    steps = data.draw(shared_chains(image))
    operations = chain(steps)
    [picture] = pixels(at_first, 1, seed % 1000)
    rng = np.random.default_rng(seed % 1000)
    example = {
        "boxes": rows_of(at_first, 4, seed % 10, -1.0),
        "image": picture,
        "mask": rng.integers(1, 9, picture.shape[:2], np.uint8),
        "points": rows_of(at_first, 2, seed % 10, -1.0),
    }
    chains: dict[str, Any] = {
        "boxes": [T.BoundingBoxes("image", min_size=0), *operations],
        "image": [T.Layout("HWC"), *operations],
        "mask": [T.Layout("HW"), T.Mask(fill=0), *operations],
        "points": [T.Keypoints("image"), *operations],
    }
    options = {"batch_size": DRAWS, "seed": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none goes astray
        if "RandomErasing" in names_in(steps):
            del chains["mask"]  # it is erased, too, with numbers of the image's dtype
        [batch] = drawn([example] * DRAWS, chains, **options)
    for draw in range(DRAWS):
        want = expected(picture, steps, draw, seed=seed, first=1)
        got = {name: leaf[draw] for name, leaf in batch.items()}
        np.testing.assert_array_equal(got["image"].astype(float), want.astype(float))
        if "mask" in chains:
            mask = moved(example["mask"], steps, draw, seed)
            np.testing.assert_array_equal(got["mask"], mask)
        for name in ("boxes", "points"):
            rows = followed(example[name], at_first, steps, draw, seed)
            np.testing.assert_array_equal(got[name], rows)


# ---- the warning

SPEC = {
    "boxes": Field((5, 4), np.float32),
    "image": Field((20, 30, 3), np.uint8),
}
BB = T.BoundingBoxes("image")
FLIP, OTHER, CROP = (
    T.RandomHorizontalFlip(),
    T.RandomHorizontalFlip(),
    T.RandomResizedCrop(8),
)
SURE = T.RandomVerticalFlip(p=1.0)


def warned(image: list[T.Operation], boxes: list[T.Operation]) -> bool:
    """Return whether boxes are said to move otherwise than their image."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        transform = {"image": image, "boxes": [BB, *boxes]}
        EchoBuffer(SPEC, batch_size=2, window=4, transform=transform).close()
    assert all("moves the image" in str(each.message) for each in found)
    return bool(found)


SAME = [
    [T.RandomApply([FLIP])],
    [T.RandomApply([SURE, T.ColorJitter(0.4)])],
    [T.RandomChoice([CROP, [T.Resize(8), T.CenterCrop(8)]])],
    [T.RandomOrder([FLIP, SURE, T.ColorJitter(0.4)])],
    [T.RandomApply([T.RandomChoice([FLIP, [SURE, OTHER]], [1, 2])], 0.3)],
    [T.RandAugment()],
    [T.TrivialAugmentWide(), FLIP],
    [T.AutoAugment()],
    [T.RandomPerspective(), T.GaussianBlur(3), T.Sharpness(2)],
]


@pytest.mark.parametrize("operations", SAME, ids=repr)
def test_one_container_in_both_chains_is_not_warned_of(
    operations: list[T.Operation],
) -> None:
    assert not warned(operations, operations)
    assert warned(operations, [])
    assert warned([*operations, FLIP], operations)


@pytest.mark.parametrize(
    ("image", "boxes"),
    [
        # Another container makes other choices, whatever is inside.
        ([T.RandomApply([SURE])], [T.RandomApply([SURE])]),
        ([T.RandomApply([FLIP])], [T.RandomApply([FLIP])]),
        ([T.RandomApply([FLIP])], [FLIP]),
        ([SURE], [T.RandomApply([SURE])]),
        ([T.RandomChoice([SURE, []])], [T.RandomChoice([SURE, []])]),
        ([T.RandomOrder([SURE, FLIP])], [SURE, FLIP]),
        ([T.RandAugment()], [T.RandAugment()]),
        ([T.RandomPerspective()], [T.RandomPerspective()]),
    ],
    ids=repr,
)
def test_containers_that_choose_apart_are_warned_of(image: Any, boxes: Any) -> None:
    assert warned(image, boxes)


@pytest.mark.parametrize(
    ("image", "boxes"),
    [
        # What moves nothing need not be shared.
        ([T.RandomApply([T.ColorJitter(0.4)]), FLIP], [FLIP]),
        ([T.RandomApply([T.GaussianBlur(3)]), T.Sharpness(2), FLIP], [FLIP]),
        # Nothing is left to chance.
        ([T.RandomApply([SURE], p=1.0)], [SURE]),
        ([T.RandomApply([FLIP], p=0.0)], []),
        ([T.RandomOrder([FLIP])], [FLIP]),
        ([T.RandomChoice([T.Resize(8)])], [T.RandomChoice([T.Resize(8)])]),
    ],
    ids=repr,
)
def test_what_moves_alike_is_not_warned_of(image: Any, boxes: Any) -> None:
    assert not warned(image, boxes)


def test_what_is_refused_in_a_container() -> None:
    """A mix, and branches that end with images of different sizes."""
    for container, message in (
        (T.RandomApply([T.MixUp(labels=None)]), "cannot mix"),
        (T.RandomChoice([T.Resize(8), T.Resize(9)]), "results differ in shape"),
    ):
        with pytest.raises(SpecError, match=message):
            warned([], [container])
