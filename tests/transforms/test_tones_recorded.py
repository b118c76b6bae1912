"""Tones, padding and graded operations against what torchvision answered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from echobuf import transforms as T
from echobuf.transforms import graded
from torchvision_recorded import Case, cases_of
from transform_engine import one

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


@pytest.mark.parametrize(
    "kind", sorted({c.parameters.get("kind") or "" for c in CASES})
)
def test_graded_as_torchvision(kind: str) -> None:
    """Warps but for ties, and saturation but for a level, as of the other operations."""
    for case in CASES:
        if case.op != "graded" or case.parameters["kind"] != kind:
            continue
        made = answer(case, of_level(**case.parameters), "HWC").astype(np.float64)
        gap = np.abs(made - case.output)
        uint8 = case.dtype == "uint8"
        if kind in ("Shear", "Rotate") or kind in WARPS:
            if case.parameters["interpolation"] == "nearest":
                assert (gap > 1e-6).mean() <= 0.01, case
            else:
                assert gap.max() <= (1 if uint8 else 1e-4), case
        elif kind == "Color":
            assert gap.max() <= (1 if uint8 else 2e-6), case
        else:
            assert gap.max() <= (0 if uint8 else 2e-6), case
