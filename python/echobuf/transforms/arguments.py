"""Arguments of operations, checked and brought into one form."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import numbers as abstract
import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from echobuf import _core

if TYPE_CHECKING:
    from echobuf.transforms.operation import Operation

Pair = tuple[float, float]
Check = Callable[["Operation", str, Any], Any]
"""Returns an argument in one form, of the operation, the argument's name, its value."""
MOST = 3.4028234663852886e38
"""The largest 32-bit float."""


def checks(**of_arguments: Check) -> Mapping[str, Check]:
    """Return the checks of an operation's arguments, by their names."""
    return MappingProxyType(of_arguments)


def optional(check: Check) -> Check:
    """Return a check that allows None, too."""
    return lambda owner, name, value: (
        None if value is None else check(owner, name, value)
    )


def make_plain(owner: Operation) -> None:
    """Bring settings that are scalars or arrays of NumPy, torch or JAX to Python's.

    So equal settings make equal operations, in results, messages and states. What is
    no number stays, for the checks that follow.
    """
    for field in dataclasses.fields(owner):  # type: ignore[arg-type]
        value = getattr(owner, field.name)
        with contextlib.suppress(Exception):  # of a tensor without memory, say
            object.__setattr__(owner, field.name, _plain(value))


def _plain(value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    if isinstance(value, np.generic | np.ndarray):
        if value.dtype.kind not in "biuf":
            return value
    elif type(getattr(value, "ndim", None)) is not int or not hasattr(value, "tolist"):
        return value
    if isinstance(value, np.longdouble):
        return float(value)
    if value.ndim == 0:
        return value.tolist()
    return _plain(tuple(value.tolist())) if value.ndim == 1 else value


def number(
    owner: Operation,
    name: str,
    value: Any,
    least: float = -math.inf,
    most: float = math.inf,
) -> float:
    """Return `value` as a finite float within bounds."""
    allowed = "a finite number"
    if least > -math.inf or most < math.inf:
        allowed += f" from {least:g}" if least > -math.inf else ""
        allowed += f" to {most:g}" if most < math.inf else " on"
    if isinstance(value, bool | np.bool_) or not _is_real(value):
        raise owner.refusal(name, value, allowed)
    try:
        result = float(value)
    except Exception:  # of any type that is no number of Python's
        raise owner.refusal(name, value, allowed) from None
    if not (math.isfinite(result) and least <= result <= most):
        raise owner.refusal(name, value, allowed)
    return result


def float32(owner: Operation, name: str, value: Any, least: float = -MOST) -> float:
    """Return `value` as a number that is computed with as a 32-bit float."""
    return number(owner, name, value, least, MOST)


def _is_real(value: Any) -> bool:
    if isinstance(value, abstract.Real | np.number):
        return not isinstance(value, np.complexfloating)
    return getattr(value, "ndim", None) == 0 and hasattr(value, "__float__")


def probability(owner: Operation, name: str, value: Any) -> float:
    """Return `value` as a probability."""
    return number(owner, name, value, 0.0, 1.0)


def integer(
    owner: Operation, name: str, value: Any, least: int, most: int = 2**31 - 1
) -> int:
    """Return `value` as an int within bounds."""
    allowed = f"an int from {least:,} to {most:,}"
    try:
        if isinstance(value, bool):
            raise TypeError
        result = operator.index(value)
    except Exception:  # of any type that is no int of Python's
        raise owner.refusal(name, value, allowed) from None
    if not least <= result <= most:
        raise owner.refusal(name, value, allowed)
    return result


def flag(owner: Operation, name: str, value: Any) -> bool:
    """Return `value` if it is True or False."""
    if value is True or value is False:
        return bool(value)
    raise owner.refusal(name, value, "True or False")


def is_sequence(value: Any) -> bool:
    """Return whether `value` is a list, a tuple, or an array of one axis."""
    if isinstance(value, str | bytes):
        return False
    return isinstance(value, Sequence) or getattr(value, "ndim", None) == 1


def pair(
    owner: Operation,
    name: str,
    value: Any,
    least: float = -math.inf,
    most: float = math.inf,
) -> Pair:
    """Return `value` as two numbers, the first not above the second."""
    if not is_sequence(value) or len(value) != 2:
        raise owner.refusal(name, value, "a pair (least, most)")
    low = number(owner, name, value[0], least, most)
    high = number(owner, name, value[1], least, most)
    if low > high:
        raise owner.refusal(name, value, "a pair (least, most), in this order")
    return low, high


def size(owner: Operation, name: str, value: Any) -> tuple[int, int]:
    """Return `value` as height and width; one int is both."""
    if is_sequence(value):
        if len(value) == 1:
            value = [value[0], value[0]]
        if len(value) != 2:
            raise owner.refusal(name, value, "an int, or (height, width)")
        height, width = value
    else:
        height = width = value
    return integer(owner, name, height, 1), integer(owner, name, width, 1)


def ratio(owner: Operation, name: str, value: Any) -> Pair:
    """Return `value` as least and most of a rectangle's width over its height."""
    low, high = pair(owner, name, value)
    if low < 1e-6 or high > 1e6:
        raise owner.refusal(name, value, "a pair of numbers from 1e-6 to 1e6")
    return low, high


def range_around(
    owner: Operation, name: str, value: Any, least: float = -math.inf
) -> Pair:
    """Return `value` as a pair; a number x >= 0 means (-x, x)."""
    if is_sequence(value):
        return pair(owner, name, value, least)
    x = number(owner, name, value, 0.0)
    return -x, x


def numbers_of(owner: Operation, name: str, value: Any) -> tuple[float, ...]:
    """Return `value`, a number or one for each channel, as a tuple."""
    if is_sequence(value):
        if not 0 < len(value) <= _core.MOST_CHANNELS:
            allowed = f"a number, or one for each channel, up to {_core.MOST_CHANNELS}"
            raise owner.refusal(name, value, allowed)
        return tuple(float32(owner, name, x) for x in value)
    return (float32(owner, name, value),)


def key(owner: Operation, name: str, value: Any) -> None:
    """Raise unless `value` can be the key of a leaf, or a tuple of such."""
    try:
        hash(value)
        repr(value)
        is_array = hasattr(value, "__array__")  # which `==` compares number by number
    except Exception:
        is_array = True
    if is_array:
        raise owner.refusal(name, value, "the key of a leaf, or a tuple of keys")


def one_of(*choices: str) -> Check:
    """Return a check for one of some words, or an enum's member that has one."""

    def check(owner: Operation, name: str, value: Any) -> str:
        word = getattr(value, "value", value)
        if not isinstance(word, str) or word not in choices:
            raise owner.refusal(name, value, "one of " + ", ".join(map(repr, choices)))
        return str(word)

    return check


# ---- checks with bounds


def _within(check: Callable[..., Any]) -> Callable[..., Check]:
    def with_bounds(*bounds: Any) -> Check:
        return lambda owner, name, value: check(owner, name, value, *bounds)

    return with_bounds


integers = _within(integer)
numbers = _within(number)
float32s = _within(float32)
pairs = _within(pair)
