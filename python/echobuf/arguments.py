"""Checks of single arguments, in the words of their errors."""

from __future__ import annotations

import operator
from typing import Any

from echobuf.errors import OptionError


def check_int(name: str, value: Any, least: int, most: int | None) -> int:
    """Return `value` as an int within bounds; raise `OptionError` otherwise."""
    bounds = f">= {least}" if most is None else f"from {least} to {most}"
    try:
        if isinstance(value, bool):
            raise TypeError
        result = operator.index(value)
    except TypeError:
        raise OptionError(
            f"`{name}` is {value!r}; it must be an int {bounds}."
        ) from None
    if result < least or (most is not None and result > most):
        raise OptionError(f"`{name}` is {result}; it must be an int {bounds}.")
    return result


def check_bool(name: str, value: Any) -> bool:
    """Return a bool as it is; raise `OptionError` for anything else."""
    if value is True or value is False:
        return bool(value)
    raise OptionError(f"`{name}` is {value!r}; it must be True or False.")
