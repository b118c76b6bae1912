"""Boxes and points lie where the pixels of the image went."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echobuf import transforms as T
from transform_engine import drawn

HEIGHT, WIDTH = 24, 30
DRAWS = 8


@st.composite
def rectangles(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """Some pixels of an image: x1, y1, x2, y2."""
    x = draw(st.integers(0, WIDTH - 2)), draw(st.integers(2, WIDTH))
    y = draw(st.integers(0, HEIGHT - 2)), draw(st.integers(2, HEIGHT))
    return x[0], y[0], min(WIDTH, x[0] + x[1]), min(HEIGHT, y[0] + y[1])


def painted(box: tuple[int, int, int, int]) -> np.ndarray:
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    image[box[1] : box[3], box[0] : box[2]] = 255
    return image


def served(
    boxes: list[tuple[int, int, int, int]], operations: list[Any], seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Draws: the painted pixels of an image, and the box."""
    examples = [
        {"image": painted(box), "box": np.array(box, np.int32)} for box in boxes
    ]
    transform = {"image": operations, "box": [T.BoundingBoxes("image"), *operations]}
    options: dict[str, Any] = {"batch_size": 2, "factor": 1, "seed": seed}
    return [
        (image[..., 0] > 127, box)
        for batch in drawn(examples, transform, **options)
        for image, box in zip(batch["image"], batch["box"], strict=True)
    ]


def around(pixels: np.ndarray) -> np.ndarray:
    """Return the box of painted pixels; all 0 if there are none."""
    y, x = np.nonzero(pixels)
    if not len(x):
        return np.zeros(4)
    return np.array([x.min(), y.min(), x.max() + 1, y.max() + 1])


@st.composite
def straight(draw: st.DrawFn) -> list[T.Operation]:
    """Crops, flips and resizing, of which one interpolates."""
    size = st.integers(8, 40)
    crops = st.builds(
        T.RandomCrop,
        st.integers(8, 30),
        padding=st.just(6),
        pad_if_needed=st.just(True),
    )
    flips = st.sampled_from([T.RandomHorizontalFlip(), T.RandomVerticalFlip()])
    how = st.sampled_from(["bilinear", "nearest"])
    resized = st.one_of(
        st.builds(T.RandomResizedCrop, size, st.just((0.2, 1.0)), interpolation=how),
        st.builds(T.Resize, st.tuples(size, size), how),
    )
    moves = st.lists(crops | flips, max_size=3, unique_by=id)
    return [*draw(moves), draw(resized), *draw(moves)]


@settings(max_examples=60)
@given(st.lists(rectangles(), min_size=8, max_size=8), straight(), st.integers(0, 99))
def test_a_rectangle_is_where_its_box_is(
    boxes: list[Any], operations: list[T.Operation], seed: int
) -> None:
    """To a pixel. Boxes that are thinner than two may have no pixel."""
    for pixels, box in served(boxes, operations, seed):
        found = around(pixels)
        if (box == -1).all():
            assert (found[2:] - found[:2]).min() <= 2
        elif (box[2:] - box[:2]).min() >= 2:
            np.testing.assert_allclose(box, found, atol=1.0)


@settings(max_examples=40)
@given(
    st.lists(rectangles(), min_size=8, max_size=8),
    st.sampled_from(["turn", "affine"]),
    st.integers(0, 99),
)
def test_a_turned_rectangle_lies_in_its_box(
    boxes: list[Any], kind: str, seed: int
) -> None:
    """All centres of its pixels, whatever is cut off."""
    operation = (
        T.RandomRotation(180, center=(10, 8))
        if kind == "turn"
        else T.RandomAffine(40, (0.2, 0.3), (0.5, 2.0), (-10, 10, -5, 5))
    )
    for pixels, box in served(boxes, [operation, T.RandomHorizontalFlip()], seed):
        y, x = np.nonzero(pixels)
        if (box == -1).all():
            assert not len(x) or np.ptp(x) == 0 or np.ptp(y) == 0
            continue
        near = 1e-3
        if len(x):
            assert box[0] - near <= x.min() + 0.5 <= x.max() + 0.5 <= box[2] + near
            assert box[1] - near <= y.min() + 0.5 <= y.max() + 0.5 <= box[3] + near


@pytest.mark.parametrize("seed", range(6))
def test_a_pixel_is_where_its_point_is(seed: int) -> None:
    """Exactly, through crops and flips."""
    rng = np.random.default_rng(seed)
    image = rng.permutation(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH).astype(np.float32)
    places = np.stack([rng.integers(0, WIDTH, 20), rng.integers(0, HEIGHT, 20)], 1)
    operations = [
        T.RandomCrop(20, padding=4, fill=-1),
        T.RandomHorizontalFlip(),
        T.RandomVerticalFlip(),
        T.CenterCrop(16),
    ]
    transform = {
        "image": [T.Layout("HW"), *operations],
        "points": [T.Keypoints("image", outside=-9), *operations],
    }
    example = {"image": image, "points": places}
    [batch] = drawn([example] * DRAWS, transform, batch_size=DRAWS, seed=seed)
    for made, at in zip(batch["image"], batch["points"], strict=True):
        for (x, y), (x0, y0) in zip(at.astype(int), places, strict=True):
            value = image[y0, x0]
            if x == -9:
                assert value not in made
            else:
                assert made[y, x] == value
