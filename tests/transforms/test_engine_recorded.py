"""The engine against what torchvision answered, image by image."""

from __future__ import annotations

import numpy as np
import pytest

from echobuf import transforms as T
from torchvision_recorded import Case, as_operation, cases
from transform_engine import one
from transform_reference import Draw, parameters, warp

COVERED = sorted({case.op for case in cases() if as_operation(case) is not None})
# Floats are summed in another order; in uint8 a product and a sum are rounded apart.
CLOSE = {"Resize": 2e-6, "RandomResizedCrop": 2e-6, "ColorJitter": 2e-6}
DRAW = Draw(seed=0, epoch=0, draw=0, op=1)
WARPS = ("RandomRotation", "RandomAffine")


def answer(case: Case, order: str) -> np.ndarray:
    """[height, width, channels], whichever way the leaf lies."""
    name, options = as_operation(case)
    image = case.inputs[0]
    leaf = image if order == "HWC" else np.ascontiguousarray(image.transpose(2, 0, 1))
    made = one(leaf, [T.Layout(order), getattr(T, name)(**options)])
    made = made if order == "HWC" else made.transpose(1, 2, 0)
    assert made.shape == case.output.shape, case
    assert made.dtype.name == case.dtype, case
    return made


def sure(case: Case) -> np.ndarray:
    """Return the pixels whose nearest pixel the last bits do not decide."""
    name, given = as_operation(case)
    shape = case.inputs[0].shape
    # Nothing is left to chance in these, or both are drawn alike: as the class is.
    what = parameters(name, given, DRAW, shape)
    keys = ("angle", "center", "translate", "scale", "shear")
    what = {key: what[key] for key in keys if key in what}
    of = warp.rotation_matrix if name == "RandomRotation" else warp.affine_matrix
    return ~warp.near_tie(shape, of(shape, **what))[..., None]


def check(case: Case, made: np.ndarray) -> None:
    gap = np.abs(made.astype(np.float64) - case.output.astype(np.float64))
    uint8 = case.dtype == "uint8"
    name, _ = as_operation(case)
    if name in WARPS:
        if case.parameters.get("interpolation") != "bilinear":
            gap = np.where(sure(case), gap, 0)
            assert gap.max() <= (0 if uint8 else 1e-6), case
        else:
            assert gap.max() <= (1 if uint8 else 1e-4 * np.abs(case.output).max()), case
        return
    allowed = CLOSE.get(name, 0)
    if uint8 and allowed:
        assert gap.max() <= 1, case
    else:
        assert gap.max() <= allowed, case


@pytest.mark.parametrize("order", ["HWC", "CHW"])
@pytest.mark.parametrize("op", COVERED)
def test_as_torchvision(op: str, order: str) -> None:
    covered = [case for case in cases(op) if as_operation(case) is not None]
    refused = 0
    for case in covered:
        if (
            case.op == "center_crop"
            and min(
                a - b
                for a, b in zip(case.inputs[0].shape, case.output.shape, strict=True)
            )
            < 0
        ):
            refused += 1
            continue
        check(case, answer(case, order))
    assert refused < len(covered)
