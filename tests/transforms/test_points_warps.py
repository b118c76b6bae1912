"""Boxes and points that follow moved corners and the warps of automatic operations."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echobuf import transforms as T
from echobuf.transforms import graded
from neighbour_chains import perspective
from test_points import EXACT, STILL, engine, rows_of, wanted
from transform_chains import DTYPES, Image, chains, images
from transform_engine import Step, drawn
from transform_reference import points

LEVELS = {"rotate": (10.0, 45.0, 170.0), "shear_x": (0.0, 0.3, 0.99)}
LEVELS |= {"shear_y": (0.0, 0.3, 0.99), "translate_x": (0.0, 1.0, 3.7)}
LEVELS |= {"translate_y": (0.9, 2.0, 5.0)}


def warped(draw: st.DrawFn, image: Image) -> Step:
    kind = draw(st.sampled_from(graded.WARPS))
    return "GradedWarp", {
        "levels": LEVELS[kind],
        "kind": kind,
        "either_sign": draw(st.booleans()),
    }


def made_of(steps: list[Step]) -> list[Any]:
    """The operations; those with levels are of no public name."""
    return [
        getattr(graded if name.startswith("Graded") else T, name)(**options)
        for name, options in steps
    ]


@settings(max_examples=150)
@given(st.data())
@pytest.mark.parametrize("numbers", [4, 2])
def test_random_chains(numbers: int, data: st.DataObject) -> None:
    image = data.draw(images(DTYPES))
    at_first = replace(image)
    steps = data.draw(chains(image, EXACT + STILL + (warped, perspective) * 3))
    outside = data.draw(st.sampled_from([-1.0, 7.5, math.nan]))
    kind = T.BoundingBoxes if numbers == 4 else T.Keypoints
    rows = rows_of(at_first, numbers, data.draw(st.integers(0, 9)), outside)
    leaves = {"a": (kind("image", outside), rows)}
    for draw, made in enumerate(engine(at_first, steps, leaves, made_of(steps))):

        def reference(rows: np.ndarray, draw: int = draw) -> np.ndarray:
            return wanted(rows, at_first, steps, draw, outside=outside)

        want, got = reference(rows), made["a"]
        assert got.dtype == np.float32
        # Rows at an edge, without an area, or near to where a perspective has its
        # horizon, are decided by the last bits.
        near = np.full(numbers, 1e-3, np.float32)
        grown = near * np.repeat([-1, 1], numbers // 2)
        others = [
            reference((rows + by).astype(np.float32))
            for by in (near, -near, grown, -grown)
        ]
        lost = points.marked(want, outside)
        sure = np.ones(len(rows), bool)
        for other in others:
            gap = np.abs(other - want).max(axis=1)
            sure &= points.marked(other, outside) == lost
            sure &= lost | (gap < 0.03)
        np.testing.assert_allclose(got[sure], want[sure], rtol=1e-5, atol=4e-4)


@pytest.mark.parametrize("kind", graded.WARPS)
def test_each_warp_moves_rows_by_its_level(kind: str) -> None:
    """Of one level, and one sign."""
    image = Image(40, 60, 3, np.dtype("uint8"))
    options = {"levels": (0.5,), "kind": kind, "either_sign": False}
    if kind == "rotate":
        options["levels"] = (90.0,)
    elif kind.startswith("translate"):
        options["levels"] = (7.9,)
    steps: list[Step] = [("GradedWarp", options)]
    leaves = {
        "a": (T.BoundingBoxes("image"), np.array([[24, 8, 30, 20]], np.float32)),
        "b": (T.Keypoints("image"), np.array([[24, 10]], np.float32)),
    }
    [made, *_] = engine(image, steps, leaves, made_of(steps))
    box, point = {
        "shear_x": ([14, 8, 26, 20], [19, 10]),
        "shear_y": ([24, 0, 30, 8], [-1, -1]),
        "translate_x": ([31, 8, 37, 20], [31, 10]),
        "translate_y": ([24, 15, 30, 27], [24, 17]),
        "rotate": ([18, 20, 30, 26], [20, 26]),
    }[kind]
    np.testing.assert_allclose(made["a"], [box], atol=1e-4)
    np.testing.assert_allclose(made["b"], [point], atol=1e-4)


def test_an_image_that_stays_leaves_rows_that_lie_outside() -> None:
    """An image whose corners stay, or go on a line, or that chance leaves alone."""
    rows = np.array([[-3, 2, 4, 9]], np.float32)
    shift = {"size": (9, 7), "padding": (4, 0, 0, 0), "pad_if_needed": True}
    for image, options in (
        (Image(9, 7, 3, np.dtype("uint8")), {"p": 0.0}),
        (Image(9, 1, 3, np.dtype("uint8")), {"p": 1.0}),
    ):
        steps: list[Step] = [
            ("RandomPerspective", options),
            ("RandomCrop", {**shift, "size": (9, image.width)}),
        ]
        leaves = {"a": (T.BoundingBoxes("image"), rows)}
        for draw, made in enumerate(engine(image, steps, leaves)):
            want = wanted(rows, image, steps, draw)
            np.testing.assert_array_equal(made["a"], want)


# ---- where the pixels went

HEIGHT, WIDTH = 40, 46
AUTOMATIC: dict[str, T.Operation] = {
    "RandAugment": T.RandAugment(3, 12),
    "TrivialAugmentWide": T.TrivialAugmentWide(),
    "imagenet": T.AutoAugment("imagenet"),
    "cifar10": T.AutoAugment("cifar10"),
    "svhn": T.AutoAugment("svhn"),
    "RandomPerspective": T.RandomPerspective(0.6, 0.8),
}


@pytest.mark.parametrize("name", AUTOMATIC)
def test_painted_pixels_lie_in_their_box(name: str) -> None:
    """All centres of them. Colours leave masks.

    A box that one warp made, and no edge cut, is not much larger than they are.
    """
    rng = np.random.default_rng(4)
    examples = []
    for _ in range(40):
        left, top = rng.integers(0, WIDTH - 12), rng.integers(0, HEIGHT - 12)
        right, bottom = left + rng.integers(5, 12), top + rng.integers(5, 12)
        mask = np.zeros((HEIGHT, WIDTH), np.uint8)
        mask[top:bottom, left:right] = 1
        box = np.array([[left, top, right, bottom]], np.float32)
        centre = np.array([[(left + right) / 2, (top + bottom) / 2]], np.float32)
        image = rng.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
        examples.append({"box": box, "centre": centre, "image": image, "mask": mask})
    operations = [AUTOMATIC[name], T.RandomHorizontalFlip()]
    transform = {
        "box": [T.BoundingBoxes("image", min_size=0), *operations],
        "centre": [T.Keypoints("image"), *operations],
        "image": operations,
        "mask": [T.Mask(), *operations],
    }
    moved = 0
    for batch in drawn(examples, transform, batch_size=8, factor=4, seed=2):
        for mask, [box], [centre] in zip(
            batch["mask"], batch["box"], batch["centre"], strict=True
        ):
            y, x = np.nonzero(mask)
            if (box == -1).all():
                assert len(x) <= 1
                continue
            assert box[0] >= 0
            assert box[2] <= WIDTH
            if not len(x):
                assert (box[2:] - box[:2]).min() <= 2
                continue
            near = 0.51  # a nearest pixel is half of one away
            assert box[0] - near <= x.min() + 0.5 <= x.max() + 0.5 <= box[2] + near
            assert box[1] - near <= y.min() + 0.5 <= y.max() + 0.5 <= box[3] + near
            inside = box.min() > 0 and box[2] < WIDTH and box[3] < HEIGHT
            if inside and name in ("TrivialAugmentWide", "RandomPerspective"):
                assert box[2] - box[0] <= np.ptp(x) + 1 + 3
                assert box[3] - box[1] <= np.ptp(y) + 1 + 3
            if (centre != -1).all():
                at = np.abs(np.stack([x, y], 1) + 0.5 - centre).max(axis=1)
                assert at.min() <= 2
            moved += not np.array_equal(box, np.round(box))
    assert moved > 4
