"""Blur, sharpness, perspective and bicubic against what torchvision answered."""

from __future__ import annotations

import numpy as np
import pytest

from echobuf import transforms as T
from torchvision_recorded import Case, cases_of
from transform_engine import one
from transform_reference import Draw, perspective, transform
from transform_reference.operations import parameters

CASES = cases_of("neighbours")
OPS = sorted({case.op for case in CASES})
# Of floats. Torchvision's places of a perspective are 32-bit floats, and so are the
# weights of its cubic.
CLOSE = {"GaussianBlur": 1e-6, "Sharpness": 1e-6, "Resize": 5e-6}
CLOSE |= {"RandomPerspective": 2e-5}


def sure(case: Case, margin: float = 1e-3) -> np.ndarray:
    """Return the pixels whose nearest pixel the last bits do not decide."""
    shape = case.inputs[0].shape
    given = {k: v for k, v in case.parameters.items() if k != "seed"}
    draw = Draw(seed=case.parameters["seed"], epoch=0, draw=0, op=1)
    corners = parameters(case.op, given, draw, shape)["corners"]
    m = perspective.coefficients(corners, perspective.corners_of(shape))
    gaps = [np.abs(at - np.floor(at) - 0.5) for at in perspective.sources(shape, m)]
    return (np.minimum(*gaps) > margin)[..., None]


def check(case: Case, made: np.ndarray) -> None:
    assert made.dtype == case.output.dtype
    assert made.shape == case.output.shape
    gap = np.abs(made.astype(float) - case.output.astype(float))
    if case.parameters.get("interpolation") == "nearest":
        assert sure(case).mean() > 0.9
        gap = np.where(sure(case), gap, 0)
    exact = case.op == "Sharpness" or case.parameters.get("interpolation") == "nearest"
    whole = 0 if exact else 1
    assert gap.max() <= (whole if case.dtype == "uint8" else CLOSE[case.op]), case


@pytest.mark.parametrize("order", ["HWC", "CHW"])
@pytest.mark.parametrize("op", OPS)
def test_the_engine_as_torchvision(op: str, order: str) -> None:
    for case in (case for case in CASES if case.op == op):
        options = dict(case.parameters)
        seed = options.pop("seed", 0)
        image = case.inputs[0]
        leaf = image if order == "HWC" else image.transpose(2, 0, 1).copy()
        steps = [T.Layout(order), getattr(T, op)(**options)]
        made = one(leaf, steps, seed=seed)
        check(case, made if order == "HWC" else made.transpose(1, 2, 0))


@pytest.mark.parametrize("op", OPS)
def test_the_reference_as_torchvision(op: str) -> None:
    for case in (case for case in CASES if case.op == op):
        options = dict(case.parameters)
        draw = Draw(seed=options.pop("seed", 0), epoch=0, draw=0, op=1)
        check(case, transform(op, options, draw, case.inputs[0]))
