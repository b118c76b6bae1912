"""Boxes and points go where torchvision puts them, with the same random choices."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from echobuf import transforms as T
from test_points_warps import made_of
from torchvision_functions import WARPS, F, applied, torch, tv_tensors
from transform_engine import Step, drawn
from transform_reference import Draw

SEED, DRAWS = 9, 5
SHAPE = (36, 47, 3)
FLIPS: list[Step] = [("RandomHorizontalFlip", {}), ("RandomVerticalFlip", {})]
CHAINS: list[list[Step]] = [
    FLIPS,
    [("Resize", {"size": [17, 50]}), ("CenterCrop", {"size": [12, 31]})],
    [("Resize", {"size": 20}), ("RandomCrop", {"size": 16})],
    [("Resize", {"size": 30, "max_size": 35})],
    [("RandomCrop", {"size": [50, 40], "padding": [3, 1], "pad_if_needed": True})],
    [
        ("RandomCrop", {"size": 24, "padding": 4}),
        ("RandomHorizontalFlip", {}),
        ("Resize", {"size": 41}),
    ],
    [("RandomResizedCrop", {"size": 20}), *FLIPS],
    [("RandomResizedCrop", {"size": [31, 13], "scale": [0.2, 0.9]})] * 2,
    [("RandomRotation", {"degrees": 30})],
    [("RandomRotation", {"degrees": [90, 90]}), ("RandomHorizontalFlip", {})],
    [("RandomRotation", {"degrees": 180, "center": [5, 30.5]})],
    [
        (
            "RandomAffine",
            {
                "degrees": 20,
                "translate": [0.2, 0.3],
                "scale": [0.6, 1.5],
                "shear": [-10, 10, -5, 20],
            },
        )
    ],
    [
        ("RandomResizedCrop", {"size": 30, "scale": [0.3, 1.0]}),
        ("RandomAffine", {"degrees": [5, 70], "center": [11, 2]}),
        ("RandomCrop", {"size": 40, "padding": 8}),
    ],
    [("RandomPerspective", {"distortion_scale": 0.3, "p": 0.7})],
    [
        ("RandomPerspective", {"distortion_scale": 0.6, "p": 0.8}),
        ("RandomHorizontalFlip", {}),
        ("RandomResizedCrop", {"size": 30, "scale": [0.3, 1.0]}),
    ],
    *(
        [("GradedWarp", {"kind": kind, "levels": [0.1, 0.3, 0.99]})]
        for kind in ("shear_x", "shear_y")
    ),
    *(
        [("GradedWarp", {"kind": kind, "levels": [0.9, 5.5, 20.0]})]
        for kind in ("translate_x", "translate_y")
    ),
    [
        ("GradedWarp", {"kind": "rotate", "levels": [10.0, 30.0, 135.0]}),
        ("GradedWarp", {"kind": "shear_x", "levels": [0.2]}),
    ],
]
KINDS: dict[int, Any] = {
    2: (T.Keypoints, tv_tensors.KeyPoints),
    4: (T.BoundingBoxes, partial(tv_tensors.BoundingBoxes, format="XYXY")),
}
LOSES = (*WARPS, "RandomCrop", "CenterCrop", "RandomResizedCrop")


def rows_of(numbers: int) -> np.ndarray:
    """Boxes or points in and around the image, whole numbers among them."""
    rng = np.random.default_rng(20261124)
    size = np.array([SHAPE[1], SHAPE[0]], np.float32)
    if numbers == 2:
        rows = rng.random((40, 2), np.float32) * np.float32(1.1) * size
    else:
        ends = rng.random((40, 2, 2), np.float32) * np.float32(1.2) - np.float32(0.1)
        rows = np.concatenate([(ends * size).min(1), (ends * size).max(1)], 1)
        rows[0] = [0, 0, *size]
    rows[20:30] = np.round(rows[20:30])
    return rows


def gone(x: Any) -> torch.Tensor:
    """Return which boxes have no area, and which points are outside."""
    if isinstance(x, tv_tensors.BoundingBoxes):
        return ~((x[:, 2] > x[:, 0]) & (x[:, 3] > x[:, 1]))
    return ~F.sanitize_keypoints(x)[1]


def followed(x: Any, steps: list[Step], draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows, and which are left: those that no operation has lost."""
    lost = torch.zeros(len(x), dtype=torch.bool)
    for op, (name, options) in enumerate(steps, 1):
        x = applied(name, options, Draw(seed=SEED, epoch=0, draw=draw, op=op), x)
        if name in LOSES:
            lost |= gone(x)
    if isinstance(x, tv_tensors.BoundingBoxes):
        x = F.clamp_bounding_boxes(x)
        valid = F.sanitize_bounding_boxes(x)[1]
    else:
        valid = F.sanitize_keypoints(x)[1]
    return x.numpy(), (valid & ~lost).numpy()


@pytest.mark.parametrize("numbers", [4, 2])
@pytest.mark.parametrize("steps", CHAINS, ids=lambda steps: steps[0][0])
def test_rows_are_torchvisions(steps: list[Step], numbers: int) -> None:
    """To the bit but for warps, whose sines differ in the last one.

    Perspectives it makes by coefficients in float32.
    """
    rows, (kind, wrap) = rows_of(numbers), KINDS[numbers]
    wrapped, operations = wrap(rows, canvas_size=SHAPE[:2]), made_of(steps)
    # "a" comes first, so that the operations are numbered from 1 on.
    transform = {"a": [kind("image"), *operations], "image": operations}
    examples = [{"a": rows, "image": np.zeros(SHAPE, np.uint8)}] * DRAWS
    [batch] = drawn(examples, transform, batch_size=DRAWS, seed=SEED)
    names = {name for name, _ in steps}
    near = 1e-3 if "RandomPerspective" in names else 5e-5
    for draw, got in enumerate(batch["a"]):
        want, valid = followed(wrapped, steps, draw)
        np.testing.assert_array_equal((got != -1).any(-1), valid)
        if names.isdisjoint(WARPS):
            np.testing.assert_array_equal(got[valid], want[valid])
        else:
            np.testing.assert_allclose(got[valid], want[valid], rtol=1e-5, atol=near)
