"""Records where torchvision puts boxes and points. Run by hand, as `record.py`:

    cd tests/torchvision_recorded
    PYTHONPATH=.. /tmp/recorder/bin/python record_points.py

It writes `cases_points.npz`, and `cases_warped_points.npz` of perspectives and of the
warps of automatic augmentations, beside itself: the rows, and `about`, a JSON text with
the image's shape and the chains. Parameters are those that the reference draws for the
seed SEED and the draws 0 ... DRAWS - 1, with operations numbered from 1 on: the engine
makes the same choices. "boxes_N" of chain N are the rows after torchvision's functions
and its clamping, "boxes_valid_N" tells those that torchvision's sanitizing keeps, and
that no operation before left without an area, or outside; "points_N" likewise.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

from transform_reference import Draw, parameters, tones
from transform_reference.crops import both, sides
from transform_reference.perspective import corners_of

SEED, DRAWS = 9, 5
SHAPE = (36, 47, 3)
CHAINS: list[list[tuple[str, dict[str, Any]]]] = [
    [("RandomHorizontalFlip", {"p": 1.0})],
    [("RandomVerticalFlip", {"p": 1.0})],
    [("Resize", {"size": [17, 50]}), ("CenterCrop", {"size": [12, 31]})],
    [("Resize", {"size": 20}), ("RandomCrop", {"size": 16})],
    [("Resize", {"size": 30, "max_size": 35})],
    [("RandomCrop", {"size": [50, 40], "padding": [3, 1], "pad_if_needed": True})],
    [
        ("RandomCrop", {"size": 24, "padding": 4}),
        ("RandomHorizontalFlip", {}),
        ("Resize", {"size": 41}),
    ],
    [
        ("RandomResizedCrop", {"size": 20}),
        ("RandomHorizontalFlip", {}),
        ("RandomVerticalFlip", {}),
    ],
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
]
WARPED: list[list[tuple[str, dict[str, Any]]]] = [
    [("RandomPerspective", {"distortion_scale": 0.3, "p": 0.7})],
    [("RandomPerspective", {"distortion_scale": 0.6, "p": 1.0})],
    [
        ("RandomPerspective", {"p": 0.5}),
        ("RandomHorizontalFlip", {}),
        ("RandomResizedCrop", {"size": 30, "scale": [0.3, 1.0]}),
    ],
    [("GradedWarp", {"kind": "shear_x", "levels": [0.1, 0.3, 0.99]})],
    [("GradedWarp", {"kind": "shear_y", "levels": [0.1, 0.3, 0.99]})],
    [("GradedWarp", {"kind": "translate_x", "levels": [0.9, 5.5, 20.0]})],
    [("GradedWarp", {"kind": "translate_y", "levels": [0.9, 5.5, 20.0]})],
    [("GradedWarp", {"kind": "rotate", "levels": [10.0, 30.0, 135.0]})],
    [
        ("GradedWarp", {"kind": "rotate", "levels": [20.0]}),
        ("GradedWarp", {"kind": "shear_x", "levels": [0.2]}),
    ],
]
LOSES = ("RandomCrop", "CenterCrop", "RandomResizedCrop", "RandomRotation")
LOSES += ("RandomAffine", "RandomPerspective", "GradedWarp")


def rows() -> dict[str, np.ndarray]:
    """Boxes and points in and around the image, whole numbers among them."""
    rng = np.random.default_rng(20261124)
    size = np.array([SHAPE[1], SHAPE[0]] * 2, np.float32)
    ends = (rng.random((40, 4), np.float32) * np.float32(1.2) - np.float32(0.1)) * size
    ends = ends.reshape(-1, 2, 2)
    boxes = np.concatenate([ends.min(1), ends.max(1)], 1)
    boxes[20:30] = np.round(boxes[20:30])
    boxes[0] = [0, 0, SHAPE[1], SHAPE[0]]
    points = (rng.random((40, 2), np.float32) * np.float32(1.1)) * size[:2]
    points[20:30] = np.round(points[20:30])
    return {"boxes": boxes, "points": points}


def apply(name: str, what: dict[str, Any], x: Any) -> Any:
    """One operation, with its parameters, by torchvision's functions."""
    box = {k: what[k] for k in ("top", "left", "height", "width") if k in what}
    if name == "RandomCrop":
        if any(sides(what["padding"])):
            x = F.pad(x, list(sides(what["padding"])))
        return F.crop(x, **box)
    if name == "CenterCrop":
        return F.center_crop(x, what["size"])
    if name == "Resize":
        return F.resize(x, what["size"], max_size=what.get("max_size"))
    if name == "RandomResizedCrop":
        return F.resized_crop(x, **box, size=list(both(what["size"])))
    if name == "RandomHorizontalFlip":
        return F.horizontal_flip(x) if what["flip"] else x
    if name == "RandomVerticalFlip":
        return F.vertical_flip(x) if what["flip"] else x
    if name == "RandomRotation":
        return F.rotate(x, angle=what["angle"], center=what.get("center"))
    given = {k: what[k] for k in ("angle", "translate", "scale", "shear")}
    return F.affine(x, **given, center=what.get("center"))


def warped(options: dict[str, Any], words: Draw, x: Any) -> Any:
    """A shear, translation or rotation, as torchvision's RandAugment calls it."""
    kind = options["kind"]
    level = tones.level(list(words.words(0)), options["levels"], either_sign=True)
    if kind == "rotate":
        return F.rotate(x, angle=level)
    shift = int(level)
    degrees = math.degrees(math.atan(level))
    given = {
        "shear_x": {"shear": [degrees, 0.0], "center": [0, 0]},
        "shear_y": {"shear": [0.0, degrees], "center": [0, 0]},
        "translate_x": {"translate": [shift, 0]},
        "translate_y": {"translate": [0, shift]},
    }[kind]
    still = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0]}
    return F.affine(x, **{**still, **given})


def has_gone(x: Any) -> torch.Tensor:
    """Which boxes have no area, and which points are outside."""
    if isinstance(x, tv_tensors.BoundingBoxes):
        return ~((x[:, 2] > x[:, 0]) & (x[:, 3] > x[:, 1]))
    return ~F.sanitize_keypoints(x)[1]


def followed(x: Any, chain: Any, draw: int) -> tuple[np.ndarray, np.ndarray]:
    shape: tuple[int, ...] = SHAPE
    gone = torch.zeros(len(x), dtype=torch.bool)
    for op, (name, options) in enumerate(chain, 1):
        words = Draw(seed=SEED, epoch=0, draw=draw, op=op)
        what = parameters(name, options, words, shape)
        if name == "GradedWarp":
            x = warped(options, words, x)
        elif name == "RandomPerspective" and what["corners"] is None:
            continue
        elif name == "RandomPerspective":
            ends = [list(map(list, of)) for of in (corners_of(shape), what["corners"])]
            x = F.perspective(x, *ends)
        else:
            x = apply(name, what, x)
        shape = (*x.canvas_size, 3)
        if name in LOSES:
            gone |= has_gone(x)
    if isinstance(x, tv_tensors.BoundingBoxes):
        x = F.clamp_bounding_boxes(x)
        valid = F.sanitize_bounding_boxes(x)[1]
    else:
        valid = F.sanitize_keypoints(x)[1]
    return x.numpy(), (valid & ~gone).numpy()


def main() -> None:
    torch.set_num_threads(1)
    record("cases_points.npz", CHAINS)
    record("cases_warped_points.npz", WARPED)


def record(name: str, chains: Any) -> None:
    """Write the rows that chains make to a file of this name."""
    file = Path(__file__).with_name(name)
    given = rows()
    arrays = dict(given)
    for number, chain in enumerate(chains):
        for name, wrapped in (
            (
                "boxes",
                tv_tensors.BoundingBoxes(
                    given["boxes"], format="XYXY", canvas_size=SHAPE[:2]
                ),
            ),
            ("points", tv_tensors.KeyPoints(given["points"], canvas_size=SHAPE[:2])),
        ):
            made = [followed(wrapped, chain, draw) for draw in range(DRAWS)]
            arrays[f"{name}_{number}"] = np.stack([rows for rows, _ in made])
            arrays[f"{name}_valid_{number}"] = np.stack([valid for _, valid in made])
    about = {
        "versions": {
            "torch": torch.__version__,
            "torchvision": torchvision.__version__,
        },
        "seed": SEED,
        "shape": SHAPE,
        "chains": chains,
    }
    np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)
    print(f"{len(chains)} chains, {file.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
