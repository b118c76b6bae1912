"""The reference against what torchvision answered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from torchvision_recorded import Case, as_operation, cases, versions
from transform_reference import Draw, colour, crops, dtypes, mixing, transform, warp
from transform_reference import resize as sizes
from transform_reference.operations import STEPS

FUNCTIONS = {
    **{name: getattr(colour, name) for name in (*colour.STEPS, "color_jitter")},
    "pad": crops.pad,
    "crop": crops.crop,
    "center_crop": crops.center_crop,
    "horizontal_flip": crops.horizontal_flip,
    "vertical_flip": crops.vertical_flip,
    "erase": crops.erase,
    "resize": sizes.resize,
    "resized_crop": sizes.resized_crop,
    "rotate": warp.rotate,
    "affine": warp.affine,
    "to_dtype": dtypes.to_dtype,
    "normalize": dtypes.normalize,
    "mixup": mixing.mixup,
}
OPS = sorted({case.op for case in cases()})
WARPS = ("rotate", "affine", "RandomRotation", "RandomAffine")
BLENDS = ("contrast", "saturation", "color_jitter")
# Sums in another order or precision; all else is equal in every bit. Coordinates are
# float32 there, and where the fill is 40 and the image below 1 that shows.
CLOSE = {"resize": 1e-6, "resized_crop": 1e-6, "contrast": 1e-7, "color_jitter": 1e-6}
CLOSE |= dict.fromkeys(WARPS, 1e-4)

DRAW = Draw(seed=7, epoch=1, draw=11, op=2)


def answer(case: Case, **more: Any) -> np.ndarray:
    """Return the reference's result."""
    given = {**case.parameters, **more}
    if case.op in STEPS:
        return transform(case.op, given, DRAW, case.inputs[0])
    if case.op == "noise":
        return mixing.noise(case.inputs[0], normals=case.inputs[1], **given)
    if case.op == "prepare":
        dtype = given.pop("dtype")
        image = dtypes.to_dtype(case.inputs[0], dtype="float32", scale=True)
        return dtypes.to_dtype(dtypes.normalize(image, **given), dtype=dtype)
    if case.op == "mix_labels":
        return mixing.mix_labels(given.pop("label"), given.pop("partner"), **given)
    if case.op == "cutmix":
        box, _ = mixing.cutmix_box(*case.inputs[0].shape[:2], **given)
        return mixing.cutmix(*case.inputs, box=box)
    return FUNCTIONS[case.op](*case.inputs, **given)


def gaps(case: Case, **more: Any) -> np.ndarray:
    """Return the distance from torchvision's result, value by value."""
    found = answer(case, **more)
    assert found.shape == case.output.shape, case
    assert found.dtype == case.output.dtype, case
    return np.abs(found.astype(float) - case.output.astype(float))


def sure(case: Case) -> np.ndarray:
    """[height, width, 1]: where the nearest pixel does not hang on the last bits."""
    name, given = "affine", case.parameters
    if as_operation(case) is not None:
        name, given = as_operation(case)
    keys = {k: given[k] for k in ("center",) if k in given}
    shape = case.inputs[0].shape
    if name == "RandomRotation":
        matrix = warp.rotation_matrix(shape, angle=given["degrees"][0], **keys)
    else:
        what = case.parameters
        if case.op == "RandomAffine":
            what = STEPS[name][0](DRAW, shape, **given)
        keys |= {k: what[k] for k in ("angle", "translate", "scale", "shear")}
        matrix = warp.affine_matrix(shape, **keys)
    return ~warp.near_tie(shape, matrix)[..., None]


@pytest.mark.parametrize("op", sorted(set(OPS) - set(WARPS)))
def test_as_torchvision(op: str) -> None:
    for case in cases(op):
        if case.parameters.get("passes") is False:
            continue
        more = {"fused": True} if op in BLENDS else {}
        allowed = CLOSE.get(op, 0) if case.dtype == "float32" else 0
        assert gaps(case, **more).max() <= allowed, case


@pytest.mark.parametrize("op", WARPS)
def test_warps_as_torchvision(op: str) -> None:
    """Bilinear to a rounding; nearest wherever rounding does not decide."""
    for case in cases(op):
        gap = gaps(case)
        if case.parameters.get("interpolation") != "bilinear":
            gap = np.where(sure(case), gap, 0)
        allowed = 0 if case.dtype == "uint8" else CLOSE[op]
        off = gap > allowed
        assert gap[off].max(initial=0) <= 1, case
        assert off.mean() <= 0.05, case


def test_most_pixels_are_sure() -> None:
    """A mask of everything would let everything pass; right angles are all ties."""
    shares = [
        sure(case).mean()
        for case in cases(*WARPS)
        if case.parameters.get("angle", 1) % 90 and "degrees" not in case.parameters
    ]
    assert min(shares) > 0.98


def test_uint8_rounded_once() -> None:
    """As torchvision resizes uint8 where it does so in float32."""
    once = [c for c in cases("resize") if c.parameters.get("passes") is False]
    assert once
    for case in once:
        gap = gaps(case)
        assert gap.max() <= 1, case
        assert (gap > 0).mean() <= 0.002, case


@pytest.mark.parametrize("op", BLENDS)
def test_contraction_is_a_level_at_most(op: str) -> None:
    """Without it uint8 differs by one here and there, at factors such as 1.3."""
    for case in cases(op):
        if case.dtype == "uint8":
            gap = gaps(case, fused=False)
            assert gap.max() <= 1, case
            assert (gap > 0).mean() <= 0.02, case


def test_operations_of_cases() -> None:
    """The reference gives the same when a case is run as an operation."""
    seen = set()
    for case in cases():
        found = as_operation(case)
        if found is not None:
            name, options = found
            seen.add(name)
            out = transform(name, options, DRAW, case.inputs[0])
            np.testing.assert_allclose(out, answer(case), atol=1e-5, err_msg=str(case))
    assert len(seen) >= 12


def test_versions() -> None:
    """Another torchvision is another record: the tolerances are for this one."""
    assert versions()["torchvision"].startswith("0.29.1")
    assert versions()["cpu"] in ("AVX2", "AVX512")
