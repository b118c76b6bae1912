"""Reads `cases.npz` and its like."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_name("cases.npz")


@dataclass(frozen=True)
class Case:
    """One call. Images are [height, width, channels], as the reference has them."""

    op: str
    """A function of the reference, or a class of `echobuf.transforms`."""
    parameters: dict[str, Any]
    inputs: tuple[np.ndarray, ...]
    """The image; where two are mixed, both."""
    output: np.ndarray
    """bfloat16 as float32."""
    dtype: str
    """Of the output, in truth."""
    number: int

    def __str__(self) -> str:
        """For the name of a test."""
        shape = "x".join(map(str, self.output.shape))
        return f"{self.number}-{self.op}-{self.dtype}-{shape}"


@cache
def _read(file: Path = FILE) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    with np.load(file, allow_pickle=False) as arrays:
        held = {name: arrays[name] for name in arrays.files}
    return json.loads(str(held.pop("about"))), held


def _stored(array: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


@cache
def _cases(file: Path = FILE) -> tuple[Case, ...]:
    about, arrays = _read(file)
    taken: dict[str, int] = {}
    found = []
    for number, case in enumerate(about["cases"]):
        dtype, size = case["dtype"], math.prod(case["shape"])
        at = taken.get(dtype, 0)
        taken[dtype] = at + size
        output = arrays[f"outputs_{dtype}"][at : at + size].reshape(case["shape"])
        inputs = tuple(arrays[name] for name in case["inputs"])
        output = _stored(output, dtype)
        what = case["op"], case["parameters"]
        found.append(Case(*what, inputs, output, dtype, number))
    return tuple(found)


def cases(*ops: str) -> list[Case]:
    """All cases of these operations, or of all."""
    unknown = set(ops) - {case.op for case in _cases()}
    assert not unknown, f"nothing is recorded of {unknown}"
    return [case for case in _cases() if not ops or case.op in ops]


def cases_of(part: str) -> list[Case]:
    """All cases of a part that has a file of its own."""
    return list(_cases(FILE.with_name(f"cases_{part}.npz")))


def versions() -> dict[str, str]:
    """Of torch, torchvision, and the instructions that torch used."""
    return dict(_read()[0]["versions"])


_AS_CLASS = {
    "center_crop": "CenterCrop",
    "resize": "Resize",
    "normalize": "Normalize",
    "to_dtype": "ToDtype",
}


def as_operation(case: Case) -> tuple[str, dict[str, Any]] | None:
    """The name and options of an operation that does what was done; None if none does.

    A range (a, a) leaves nothing to chance.
    """
    given = dict(case.parameters)
    if case.op[0].isupper():
        return case.op, given
    if case.op in _AS_CLASS and given.pop("passes", True):
        return _AS_CLASS[case.op], given
    if case.op in ("brightness", "contrast", "saturation", "hue"):
        return "ColorJitter", {case.op: (given["factor"], given["factor"])}
    if case.op in ("horizontal_flip", "vertical_flip"):
        way = case.op.removesuffix("_flip").capitalize()
        return f"Random{way}Flip", {"p": 1.0}
    if case.op == "pad":
        return "RandomCrop", {**given, "size": list(case.output.shape[:2])}
    if case.op == "rotate":
        angle = given.pop("angle")
        return "RandomRotation", {**given, "degrees": (angle, angle)}
    if case.op == "affine" and given.pop("translate") == [0, 0]:
        angle, scale, (x, y) = (given.pop(k) for k in ("angle", "scale", "shear"))
        pinned = {"degrees": (angle, angle), "scale": (scale, scale)}
        return "RandomAffine", {**given, **pinned, "shear": (x, x, y, y)}
    return None
