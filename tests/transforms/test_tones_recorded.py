"""Tones, padding and graded operations against what torchvision answered."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from echobuf import transforms as T
from echobuf.transforms import graded
from torchvision_recorded import Case, cases_of
from transform_engine import one
from transform_reference import warp

CASES = cases_of("tones")
RANDOM = {"AutoContrast": "RandomAutocontrast"} | {
    name: f"Random{name}" for name in ("Invert", "Solarize", "Posterize", "Equalize")
}
WARPS = {
    "ShearX": "shear_x",
    "ShearY": "shear_y",
    "TranslateX": "translate_x",
    "TranslateY": "translate_y",
    "Rotate": "rotate",
}


def answer(case: Case, operation: Any, order: str) -> np.ndarray:
    """[height, width, channels], whichever way the leaf lies."""
    image = case.inputs[0]
    leaf = image if order == "HWC" else np.ascontiguousarray(image.transpose(2, 0, 1))
    made = one(leaf, [T.Layout(order), operation])
    made = made if order == "HWC" else made.transpose(1, 2, 0)
    assert made.shape == case.output.shape, case
    assert made.dtype.name == case.dtype, case
    return made


@pytest.mark.parametrize("order", ["HWC", "CHW"])
@pytest.mark.parametrize("op", sorted({case.op for case in CASES} - {"graded"}))
def test_equal_to_torchvision(op: str, order: str) -> None:
    for case in (case for case in CASES if case.op == op):
        made = answer(case, getattr(T, op)(**case.parameters), order)
        np.testing.assert_array_equal(made, case.output, str(case))
        if op in RANDOM:
            for p in (0.0, 1.0):
                operation = getattr(T, RANDOM[op])(**case.parameters, p=p)
                wanted = case.output if p else case.inputs[0]
                made = answer(case, operation, order)
                np.testing.assert_array_equal(made, wanted, str(case))


def of_level(kind: str, level: float, interpolation: str) -> Any:
    """The operation of that one level."""
    levels = (level,)
    if kind in WARPS:
        given = {"kind": WARPS[kind], "interpolation": interpolation}
        return graded.GradedWarp(levels, **given, either_sign=False)
    if kind in ("Brightness", "Color", "Contrast"):
        return graded.GradedColor(levels, kind.lower(), either_sign=False)
    return getattr(graded, f"Graded{kind}")(levels)


GRADED = [case for case in CASES if case.op == "graded"]


def sure(case: Case) -> np.ndarray:
    """Return the pixels whose nearest pixel the last bits do not decide."""
    kind, level = case.parameters["kind"], case.parameters["level"]
    shape = case.inputs[0].shape
    degrees = math.degrees(math.atan(level))
    shear = (degrees, 0) if kind == "ShearX" else (0, degrees)
    matrix = warp.affine_matrix(shape, angle=0, shear=shear, center=(0, 0))
    if kind == "Rotate":
        matrix = warp.rotation_matrix(shape, angle=level)
    return ~warp.near_tie(shape, matrix)[..., None]


@pytest.mark.parametrize("kind", sorted({case.parameters["kind"] for case in GRADED}))
def test_graded_as_torchvision(kind: str) -> None:
    """Warps but for ties; saturation but for one level."""
    for case in (case for case in GRADED if case.parameters["kind"] == kind):
        made = answer(case, of_level(**case.parameters), "HWC").astype(np.float64)
        gap = np.abs(made - case.output)
        uint8 = case.dtype == "uint8"
        if kind in WARPS and case.parameters["interpolation"] == "bilinear":
            assert gap.max() <= (1 if uint8 else 1e-4), case
        elif kind in WARPS:
            exact = kind.startswith("Translate") or sure(case)
            assert np.where(exact, gap, 0).max() <= (0 if uint8 else 1e-6), case
        else:
            ties = 1 if kind == "Color" else 0
            assert gap.max() <= (ties if uint8 else 2e-6), case
