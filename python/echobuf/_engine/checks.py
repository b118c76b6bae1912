"""Checks of arrays against fields."""

from __future__ import annotations

from typing import Any

import numpy as np

from echobuf.errors import SpecError
from echobuf.field import Field


def check_dtype(array: np.ndarray[Any, Any], field: Field, name: str) -> None:
    """Raise `SpecError` unless the dtype is the field's."""
    if array.dtype != field.dtype:
        raise SpecError(
            f"`{name}` has dtype {_dtype_name(array.dtype)}; the spec says "
            f"{_dtype_name(field.dtype)}. Convert it{_how(array.dtype, field)}: "
            "nothing is converted silently."
        )


def _how(dtype: np.dtype[Any], field: Field) -> str:
    if dtype == field.dtype.newbyteorder():
        return ", `x.astype(x.dtype.newbyteorder())`"
    return " with `.astype`"


def _dtype_name(dtype: np.dtype[Any]) -> str:
    return f"{dtype} ({dtype.str})" if not dtype.isnative else str(dtype)
