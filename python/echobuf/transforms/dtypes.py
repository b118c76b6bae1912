"""Types of numbers: their codes in the core, and which operations take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from echobuf.errors import OptionError, show

_NAMES = (
    "bool",
    "uint8",
    "int8",
    "uint16",
    "int16",
    "uint32",
    "int32",
    "uint64",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
)
OTHER = len(_NAMES)  # moved as bytes, never read
FLOATS = ("float16", "bfloat16", "float32")
_LARGEST = {"bool": 1, "uint8": 2**8 - 1, "int8": 2**7 - 1, "uint16": 2**16 - 1}
_LARGEST |= {"int16": 2**15 - 1, "uint32": 2**32 - 1, "int32": 2**31 - 1}
_LARGEST |= {"uint64": 2**64 - 1, "int64": 2**63 - 1}


def code(dtype: np.dtype[Any]) -> int:
    """Return the core's code of a type; `OTHER` if nothing computes with it."""
    if not dtype.isnative or dtype.name not in _NAMES:
        return OTHER
    return _NAMES.index(dtype.name)


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Return whether a type is of integers that operations can compute with."""
    return dtype.isnative and dtype.name in _LARGEST


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether a type is one of those that `ToDtype` makes."""
    return dtype.isnative and dtype.name in FLOATS


def largest(dtype: np.dtype[Any]) -> int:
    """Return the value of white: the largest integer of a type, or 1 for floats."""
    return _LARGEST.get(dtype.name, 1)


def float_dtype(value: Any) -> np.dtype[Any]:
    """Return the dtype that `ToDtype` names: of NumPy, torch, JAX or by its name."""
    name = _name_of(value)
    if name not in FLOATS:
        raise OptionError(
            f"`dtype` of ToDtype is {show(value)}; it must be float32, float16 or "
            "bfloat16."
        )
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError as error:
        raise OptionError(
            "`dtype` of ToDtype is bfloat16, which NumPy has by ml_dtypes alone: "
            "pip install ml_dtypes (or 'data-echoing[bfloat16]')."
        ) from error
    bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return bfloat16


def _name_of(value: Any) -> str:
    if isinstance(value, str):
        return value.removeprefix("torch.")
    if type(value).__module__ == "torch":
        return str(value).removeprefix("torch.")
    try:
        return str(np.dtype(value).name)
    except Exception:  # of any type that is no dtype
        return show(value)
