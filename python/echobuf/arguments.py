"""Checks of single arguments, in the words of their errors."""

from __future__ import annotations

import math
import numbers
import operator
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from echobuf.errors import DeviceError, OptionError, show

Factor: TypeAlias = float | Fraction | Decimal | Literal["auto"]
Unit: TypeAlias = Literal["example", "batch"]
RaggedForm: TypeAlias = Literal["packed", "padded"]

_MAX_EPOCH = 2**63 - 1
_MAX_ORDINAL = 2**15
# Floating-point factors are read as the nearest ratio with a denominator up to this:
# 3.3 means 33/10, and drifts by less than a record in 10^6 of them.
_MAX_DENOMINATOR = 1_000_000
_EXACT = (numbers.Rational, Decimal)
_REAL = (numbers.Real, Decimal)


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


def check_epoch(epoch: Any) -> int:
    """Return `epoch` as an int; raise `OptionError` otherwise."""
    return check_int("epoch", epoch, 0, _MAX_EPOCH)


def check_factor(factor: Any) -> Fraction | None:
    """Return the factor as a ratio, None for "auto"."""
    if isinstance(factor, str) and factor == "auto":
        return None
    try:
        if isinstance(factor, bool) or not isinstance(factor, _REAL):
            raise TypeError
        exact = Fraction(factor if isinstance(factor, _EXACT) else float(factor))
    except (TypeError, ValueError, OverflowError):  # complex, NaN, infinity
        raise OptionError(
            f"`factor` is {show(factor)}; it must be a finite number >= 1, or 'auto'."
        ) from None
    if exact < 1:
        raise OptionError(
            f"`factor` is {show(factor)}; it must be a number >= 1 (each fresh example "
            "is served at least once), or 'auto'."
        )
    return exact.limit_denominator(_MAX_DENOMINATOR)


def show_factor(factor: Fraction | None) -> str:
    """Return the factor as the caller may have written it."""
    if factor is None:
        return "'auto'"
    return str(factor) if factor.denominator == 1 else repr(float(factor))


def check_device(device: Any) -> str:
    """Return the name of the device; whether it can be used is asked when it is."""
    if type(device).__module__ == "torch" and type(device).__name__ == "device":
        device = str(device)
    if not isinstance(device, str):
        raise OptionError(
            f"`device` is {show(device)}; it must be 'cpu', 'cuda' or 'cuda:N'."
        )
    if device == "cpu":
        return device
    kind, colon, number = device.partition(":")
    if kind != "cuda" or (colon and not (number.isascii() and number.isdigit())):
        raise OptionError(
            f"`device` is {show(device)}; it must be 'cpu', 'cuda' or 'cuda:N'."
        )
    if colon and int(number) > _MAX_ORDINAL:
        raise DeviceError(
            f"`device` is {show(device)}; no machine has so many devices."
        )
    return device


def check_timeout(timeout: Any) -> float | None:
    """Return `timeout` in seconds; raise `OptionError` otherwise."""
    if timeout is None:
        return None
    try:
        if isinstance(timeout, bool) or not isinstance(timeout, _REAL):
            raise TypeError
        seconds = float(timeout)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not seconds >= 0:
        raise OptionError(
            f"`timeout` is {show(timeout)}; it must be seconds >= 0, or None to wait "
            "for as long as it takes."
        )
    return seconds
