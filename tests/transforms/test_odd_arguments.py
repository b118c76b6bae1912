"""Odd values for every argument: taken, or refused with an error of echobuf's."""

from __future__ import annotations

import contextlib
import inspect
import math
import traceback
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echobuf import CapacityError, EchoBuffer, Field, OptionError, SpecError
from echobuf import transforms as T

HEADER = Path(__file__).parents[2] / "examples/custom_operation/vignette.hpp"


class Raises:
    """A scalar that is no number, and has no `repr`."""

    ndim = 0

    def __float__(self) -> float:
        raise RuntimeError("no float")

    def __index__(self) -> int:
        raise KeyError("no index")

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class Unequal:
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not compared")


def nested() -> list[Any]:
    own: list[Any] = []
    own.append(own)
    return own


ODD: dict[str, Any] = {
    **{repr(x): x for x in (None, True, False, 0, -1, 2**31, 2**63, -(2**63), 2**64)},
    **{repr(x): x for x in (math.nan, math.inf, -math.inf, 1e308, 1e-320, -0.5, 1j)},
    **{repr(x): x for x in ("", "a", "random", b"x", (), [], (1,), (2, 1), (1, 2, 3))},
    **{repr(x): x for x in ((None, None), ("a", "b"), ((1, 2), (3, 4)), {}, {"a": 1})},
    "10**400": 10**400,
    "10**5000": 10**5000,
    "surrogate": "\ud800",
    "long": "x" * 10_000,
    "many": (1,) * 1000,
    "a million": range(10**6),
    "iterator": iter([1]),
    "object": object(),
    "class": int,
    "function": abs,
    "raises": Raises(),
    "pair of raises": (Raises(), Raises()),
    "unequal": Unequal(),
    "nested": nested(),
    "decimal": Decimal("NaN"),
    "fraction": Fraction(1, 3),
    "operation": T.CenterCrop(2),
    "operations": [T.CenterCrop(2), [T.RandomErasing(), T.CenterCrop((6, 5))]],
    "mixes": [T.MixUp(num_classes=2), T.CutMix(num_classes=2)],
    "container": [T.RandomApply([T.RandomApply([T.RandomErasing()])])],
    "np.int64": np.int64(3),
    "np.float16": np.float16(0.5),
    "np.nan": np.float32("nan"),
    "np.bool": np.bool_(True),
    "np.complex64": np.complex64(1),
    "np.longdouble": np.longdouble(1.5),
    "np.datetime64": np.datetime64("2020"),
    "np.timedelta64": np.timedelta64(3, "ns"),
    "np.array(3)": np.array(3),
    "np vector": np.array([1.0, 2.0]),
    "np matrix": np.ones((2, 2)),
    "np empty": np.array([]),
    "np strings": np.array(["a"]),
    "np objects": np.array([None, 1], object),
    "np masked": np.ma.masked,
    "np.dtype": np.dtype("f4"),
}
SPEC = {"x": Field((6, 5, 3), np.float32), "label": Field((), np.int64)}
ROWS = {"BoundingBoxes": "boxes", "Keypoints": "points"}  # the leaves of these
BASE: dict[str, dict[str, Any]] = {
    "BoundingBoxes": {"image": "x"},
    "CenterCrop": {"size": 2},
    "CenterWindow": {"length": 2},
    "Custom": {
        "header": HEADER,
        "struct": "Vignette",
        "settings": {"least": 0.2, "most": 0.8},
    },
    "GaussianBlur": {"kernel_size": 3},
    "Keypoints": {"image": "x"},
    "Lambda": {"function": abs},
    "Layout": {"order": "HWC"},
    "Normalize": {"mean": 0, "std": 1},
    "Pad": {"padding": 1},
    "Posterize": {"bits": 3},
    "RandomAdjustSharpness": {"sharpness_factor": 2},
    "RandomAffine": {"degrees": 3},
    "RandomApply": {"transforms": [T.RandomHorizontalFlip()]},
    "RandomChoice": {"transforms": [T.RandomHorizontalFlip(), T.RandomErasing()]},
    "RandomCrop": {"size": 3},
    "RandomOrder": {"transforms": [T.RandomHorizontalFlip(), T.RandomErasing()]},
    "RandomPosterize": {"bits": 3},
    "RandomResizedCrop": {"size": 3},
    "RandomRotation": {"degrees": 3},
    "RandomSolarize": {"threshold": 0.5},
    "RandomWindow": {"length": 2},
    "Resize": {"size": 3},
    "Solarize": {"threshold": 0.5},
    "Sharpness": {"factor": 2},
    "Source": {"leaf": "x"},
    "ToDtype": {"dtype": "float32"},
    "TokenMask": {"mask_token": 1, "vocab_size": 5},
}
ARGUMENTS = [
    (name, argument)
    for name in T.__all__
    if name != "Operation"
    for argument in inspect.signature(getattr(T, name)).parameters
]
TOGETHER = {  # arguments that have bounds, or a message, together
    ("RandAugment", "num_magnitude_bins"): "magnitude",
    ("RandomGain", "min_db"): "max_db",
    ("TokenMask", "p_mask"): "p_random",
    ("Lambda", "shape"): "shape and dtype",
    ("Lambda", "dtype"): "shape and dtype",
    ("RandomResizedCrop", "size"): "size",
}


def check(name: str, argument: str, value: Any) -> None:
    settings = {**BASE.get(name, {}), argument: value}
    operation = None
    refused = ""
    try:
        operation = getattr(T, name)(**settings)
    except OptionError as error:
        refused = str(error)
    if operation is None:
        named = TOGETHER.get((name, argument), argument)
        assert f"`{argument}" in refused or f"`{named}" in refused
        assert "must be" in refused
        assert len(refused) < 1000
        return
    repr(operation)
    if name == "Custom":  # is compiled
        return
    transform = {"y" if name == "Source" else ROWS.get(name, "x"): [operation]}
    spec = SPEC
    if name in ROWS:
        rows = {"boxes": Field((2, 4), np.float32), "points": Field((2,), np.float32)}
        spec = SPEC | rows
    with contextlib.suppress(OptionError, SpecError, CapacityError):
        options = {"batch_size": 2, "window": 4, "max_bytes": 10**8}
        EchoBuffer(spec, transform=transform, **options).close()


def check_each(name: str, argument: str, values: dict[str, Any]) -> None:
    """Try all values, and name each that fails: a test a value would be thousands."""
    failed = {}
    for odd, value in values.items():
        try:
            check(name, argument, value)
        except Exception as error:  # of any kind: it is what the test looks for
            failed[odd] = "".join(traceback.format_exception(error))
    assert not failed, "\n".join(
        f"{name}({argument}=<{odd}>):\n{told}" for odd, told in failed.items()
    )


@pytest.mark.parametrize(("name", "argument"), ARGUMENTS)
def test_odd_arguments(name: str, argument: str) -> None:
    check_each(name, argument, ODD)


def test_every_value_that_fails_is_named() -> None:
    with pytest.raises(AssertionError) as caught:
        check_each("CenterCrop", "unknown", {"a": 1, "b": 2})  # a TypeError each
    for odd in "ab":
        assert f"CenterCrop(unknown=<{odd}>):" in str(caught.value)
    check_each("CenterCrop", "size", {"taken": 3, "refused": "a"})


TENSORS: dict[str, Any] = {
    "scalar": lambda torch: torch.tensor(3),
    "bfloat16": lambda torch: torch.tensor(0.5, dtype=torch.bfloat16),
    "bool": lambda torch: torch.tensor(True),
    "complex": lambda torch: torch.tensor(1j),
    "vector": lambda torch: torch.tensor([1.0, 2.0], requires_grad=True),
    "matrix": lambda torch: torch.ones(2, 2),
    "without memory": lambda torch: torch.empty((), device="meta"),
    "vector without memory": lambda torch: torch.empty(2, device="meta"),
    "dtype": lambda torch: torch.float32,
}


@pytest.mark.parametrize(("name", "argument"), ARGUMENTS)
def test_tensors_as_arguments(name: str, argument: str) -> None:
    torch = pytest.importorskip("torch")
    check_each(name, argument, {odd: make(torch) for odd, make in TENSORS.items()})


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_label_to_ignore(odd: str) -> None:
    with contextlib.suppress(OptionError):
        T.TokenMask(1, 5).labels(ODD[odd])


UNSHOWN = ("raises", "pair of raises", "10**5000")  # have no `repr`


@pytest.mark.parametrize("odd", [odd for odd in ODD if odd not in UNSHOWN])
def test_an_odd_transform(odd: str) -> None:
    """In place of all chains, of one, of an operation, and of a key."""
    value = ODD[odd]
    transforms: list[Any] = [value, {"x": value}, {"x": [value]}]
    if getattr(type(value), "__hash__", None) is not None:
        with contextlib.suppress(TypeError):
            transforms.append({value: [T.CenterCrop(2)]})
    for transform in transforms:
        with contextlib.suppress(OptionError, SpecError):
            EchoBuffer(SPEC, batch_size=2, window=4, transform=transform).close()
