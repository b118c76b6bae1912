"""Python numbers as leaves: they have no dtype, and take that of the leaf."""

from __future__ import annotations

from typing import Any

import numpy as np

from echobuf.errors import SpecError
from echobuf.field import Field

_KINDS = {bool: "b", int: "iu", float: "f", complex: "c"}


def as_number(leaf: Any, field: Field, name: str) -> np.ndarray[Any, Any] | None:
    """Return a Python number as an array of the field's dtype, if it is of that kind.

    An int goes into integers of any size, a float into floats and a complex into
    complex numbers, which are rounded; an int is no float, and a bool no int.

    Returns:
        None for anything else.

    Raises:
        SpecError: it is beyond what the dtype holds.
    """
    if field.shape or field.dtype.kind not in _KINDS.get(type(leaf), ""):
        return None
    if type(leaf) is int:
        held = np.iinfo(field.dtype)
        if not held.min <= leaf <= held.max:
            raise SpecError(
                f"`{name}` is {_brief(leaf)}; {field.dtype} holds {held.min} to "
                f"{held.max}."
            )
    with np.errstate(over="ignore"):
        array = np.array(leaf, field.dtype)
    if not np.isfinite(array) and np.isfinite(leaf):
        raise SpecError(
            f"`{name}` is {leaf!r}; {field.dtype} holds up to "
            f"{np.finfo(field.dtype).max!s}."
        )
    return array


def _brief(number: int) -> str:
    if number.bit_length() <= 128:
        return str(number)
    return f"an int of {number.bit_length()} bits"
