"""The engine against where torchvision put boxes and points."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echobuf import transforms as T
from transform_engine import chain, drawn

FILE = Path(__file__).parents[1] / "torchvision_recorded" / "cases_points.npz"
WARPS = {"RandomRotation", "RandomAffine"}


@cache
def recorded() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    with np.load(FILE, allow_pickle=False) as arrays:
        held = {name: arrays[name] for name in arrays.files}
    return json.loads(str(held.pop("about"))), held


@pytest.mark.parametrize("name", ["boxes", "points"])
@pytest.mark.parametrize("number", range(len(recorded()[0]["chains"])))
def test_rows_are_torchvisions(number: int, name: str) -> None:
    """To the bit but for affine maps, whose sines differ in the last one."""
    about, held = recorded()
    steps = [(op, options) for op, options in about["chains"][number]]
    want, valid = held[f"{name}_{number}"], held[f"{name}_valid_{number}"]
    operations = chain(steps)
    kind = T.BoundingBoxes if name == "boxes" else T.Keypoints
    # "a" comes first, so that the operations are numbered from 1 on.
    transform = {"a": [kind("image"), *operations], "image": operations}
    image = np.zeros(about["shape"], np.uint8)
    examples = [{"a": held[name], "image": image}] * len(want)
    options = {"batch_size": len(want), "seed": about["seed"]}
    [batch] = drawn(examples, transform, **options)
    got = batch["a"]
    np.testing.assert_array_equal((got != -1).any(-1), valid)
    if WARPS.isdisjoint(op for op, _ in steps):
        np.testing.assert_array_equal(got[valid], want[valid])
    else:
        np.testing.assert_allclose(got[valid], want[valid], rtol=1e-5, atol=5e-5)


def test_versions() -> None:
    assert recorded()[0]["versions"]["torchvision"].startswith("0.29.1")
