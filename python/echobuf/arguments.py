"""Checks of single arguments, in the words of their errors."""

from __future__ import annotations

import operator
from typing import Any

from echobuf.errors import OptionError, show


def check_int(name: str, value: Any, least: int, most: int | None) -> int:
    """Return `value` as an int within bounds; raise `OptionError` otherwise."""
    result = as_int(value)
    if result is None or result < least or (most is not None and result > most):
        bounds = f">= {least}" if most is None else f"from {least} to {most}"
        raise OptionError(f"`{name}` is {show(value)}; it must be an int {bounds}.")
    return result


def as_int(value: Any) -> int | None:
    """Return an int, one of NumPy too, as an int; None for anything else, and bools."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except Exception:  # `TypeError` mostly; an `__index__` of users may raise anything
        return None


def check_bool(name: str, value: Any) -> bool:
    """Return a bool as it is; raise `OptionError` for anything else."""
    if value is True or value is False:
        return bool(value)
    raise OptionError(f"`{name}` is {show(value)}; it must be True or False.")
