"""The engine against what torchvision answered for videos."""

from __future__ import annotations

import numpy as np
import pytest

from echobuf import transforms as T
from torchvision_recorded import Case, as_operation, cases_of
from transform_engine import one
from transform_reference import warp

# Floats are summed in another order; in uint8 a product and a sum are rounded apart.
CLOSE = {"Resize": 2e-6, "ColorJitter": 2e-6, "RandomRotation": 1e-4}


def answer(case: Case, order: str) -> np.ndarray:
    """[frames, height, width, channels], whichever way the leaf lies."""
    named = as_operation(case)
    assert named is not None
    name, options = named
    clip = case.inputs[0]
    leaf = clip if order == "THWC" else np.ascontiguousarray(clip.transpose(0, 3, 1, 2))
    made = one(leaf, [T.Layout(order), getattr(T, name)(**options)])
    return made if order == "THWC" else made.transpose(0, 2, 3, 1)


def gap(case: Case, order: str) -> np.ndarray:
    """Return the distance, 0 where the last bits decide which pixel is the nearest."""
    made = answer(case, order)
    assert made.shape == case.output.shape
    assert made.dtype == case.output.dtype
    apart = np.abs(made.astype(np.float64) - case.output.astype(np.float64))
    if case.op == "rotate" and case.parameters["interpolation"] == "nearest":
        shape = case.inputs[0].shape[1:]
        matrix = warp.rotation_matrix(shape, angle=case.parameters["angle"])
        return np.where(warp.near_tie(shape, matrix)[..., None], 0, apart)
    return apart


@pytest.mark.parametrize("order", ["THWC", "TCHW"])
@pytest.mark.parametrize("case", cases_of("clips"), ids=str)
def test_as_torchvision(case: Case, order: str) -> None:
    named = as_operation(case)
    assert named is not None
    close = named[0] in CLOSE
    nearest = "nearest" in case.parameters.get("interpolation", "")
    allowed = 0.0
    if close and not nearest:
        allowed = 1.0 if case.dtype == "uint8" else CLOSE[named[0]]
    assert gap(case, order).max() <= allowed


def test_frames_differ_in_their_means() -> None:
    """So a contrast about the mean of the clip would not pass."""
    for clip in (case.inputs[0] for case in cases_of("clips") if case.op == "contrast"):
        means = clip.mean(axis=(1, 2, 3)) / clip.max()
        assert np.ptp(means) > 0.05
