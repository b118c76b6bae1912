"""The engine against where torchvision put boxes and points."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echobuf import transforms as T
from test_points_warps import made_of
from transform_engine import drawn

FOLDER = Path(__file__).parents[1] / "torchvision_recorded"
FILES = {"plain": "cases_points.npz", "warped": "cases_warped_points.npz"}
WARPS = {"RandomRotation", "RandomAffine", "GradedWarp"}
CORNERS = {"RandomPerspective"}


@cache
def recorded(file: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    with np.load(FOLDER / FILES[file], allow_pickle=False) as arrays:
        held = {name: arrays[name] for name in arrays.files}
    return json.loads(str(held.pop("about"))), held


CASES = [(file, i) for file in FILES for i in range(len(recorded(file)[0]["chains"]))]


@pytest.mark.parametrize("name", ["boxes", "points"])
@pytest.mark.parametrize(("file", "number"), CASES)
def test_rows_are_torchvisions(file: str, number: int, name: str) -> None:
    """To the bit but for affine maps, whose sines differ in the last one.

    Perspectives it makes by coefficients in float32.
    """
    about, held = recorded(file)
    steps = [(op, options) for op, options in about["chains"][number]]
    want, valid = held[f"{name}_{number}"], held[f"{name}_valid_{number}"]
    operations = made_of(steps)
    kind = T.BoundingBoxes if name == "boxes" else T.Keypoints
    # "a" comes first, so that the operations are numbered from 1 on.
    transform = {"a": [kind("image"), *operations], "image": operations}
    image = np.zeros(about["shape"], np.uint8)
    examples = [{"a": held[name], "image": image}] * len(want)
    options = {"batch_size": len(want), "seed": about["seed"]}
    [batch] = drawn(examples, transform, **options)
    got = batch["a"]
    np.testing.assert_array_equal((got != -1).any(-1), valid)
    names = {op for op, _ in steps}
    if not CORNERS.isdisjoint(names):
        np.testing.assert_allclose(got[valid], want[valid], rtol=1e-5, atol=1e-3)
    elif not WARPS.isdisjoint(names):
        np.testing.assert_allclose(got[valid], want[valid], rtol=1e-5, atol=5e-5)
    else:
        np.testing.assert_array_equal(got[valid], want[valid])


@pytest.mark.parametrize("file", FILES)
def test_versions(file: str) -> None:
    assert recorded(file)[0]["versions"]["torchvision"].startswith("0.29.1")
