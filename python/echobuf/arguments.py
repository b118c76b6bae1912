"""Keyword arguments: checks of single ones, and `Option`, a row of their table."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, overload

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


def check_number(
    name: str, value: Any, allows: Callable[[float], bool], words: str
) -> float:
    """Return a real number as a float; raise `OptionError` if it is not allowed.

    `words` say which numbers are, such as "a number > 0"; `allows` is False for NaN.
    """
    number = math.nan
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        with suppress(OverflowError):
            number = float(value)
    if not allows(number):
        raise OptionError(f"`{name}` is {show(value)}; it must be {words}.")
    return number


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


# ---- checks as the table has them

T = TypeVar("T")
V = TypeVar("V", bound=str | None)


@dataclass(eq=False, repr=False)
class Check(Generic[T]):
    """A check of one argument."""

    allowed: str  # the values that are allowed, in words: "it must be" these
    # Returns the value, by the argument's name and what the caller gave; or raises
    # `OptionError`.
    read: Callable[[str, Any], T]


def integer(least: int, most: int | None = None) -> Check[int]:
    """Return a check for an int within bounds."""
    bounds = f">= {least}" if most is None else f"from {least} to {_show(most)}"
    return Check(
        f"an int {bounds}", lambda name, value: check_int(name, value, least, most)
    )


def _show(most: int) -> str:
    """Return a bound as a power of two, if it is one less than that, and large."""
    bits = most.bit_length()
    return f"2**{bits} - 1" if bits > 16 and most + 1 == 1 << bits else str(most)


boolean = Check("True or False", check_bool)


def choice(*values: V) -> Check[V]:
    """Return a check for one of some texts, or None where that is one of them."""
    *first, last = map(repr, values)
    allowed = f"{', '.join(first)} or {last}"

    def read(name: str, value: Any) -> V:
        for each in values:
            if isinstance(value, type(each)) and value == each:
                return each
        raise OptionError(f"`{name}` is {show(value)}; it must be {allowed}.")

    return Check(allowed, read)


def optional(check: Check[T]) -> Check[T | None]:
    """Return a check that lets None through."""
    return Check(
        f"{check.allowed}, or None",
        lambda name, value: None if value is None else check.read(name, value),
    )


def anything(allowed: str) -> Check[Any]:
    """Return a check of what is only checked with other arguments, or with a spec."""
    return Check(allowed, lambda _, value: value)


# ---- of one option


def read_size(name: str, value: Any) -> int:
    """Return a number of examples; 1 where it is left out, as other options may ask."""
    return 1 if value is None else integer(1).read(name, value)


def read_transform(name: str, transform: Any) -> Any:
    """Check the form of `transform`; its leaves are checked with the spec."""
    may_be = (
        transform is None
        or hasattr(transform, "add_to")
        or isinstance(transform, Mapping | Sequence)
    )
    if isinstance(transform, str) or not may_be:
        raise OptionError(
            f"`{name}` is {show(transform)}; it must be a mapping from leaves to "
            "lists of operations of `echobuf.transforms`."
        )
    return transform


def read_form(name: str, form: Any) -> str:
    """Return the form of ragged leaves in batches."""
    if form == "nested":
        raise OptionError(
            "`ragged` is 'nested'; nested tensors are batches of "
            "`echobuf.torch.EchoLoader`. Here it must be 'packed' or 'padded'."
        )
    return (
        "packed" if form is None else str(choice("packed", "padded").read(name, form))
    )


# ---- rows

Owner = tuple[str, ...]
"""The kinds of options that a class has; of rows that differ, the last kind counts."""

BUFFER: Owner = ("buffer",)
LOADER: Owner = ("loaders",)
TORCH: Owner = ("loaders", "ranks", "torch")
JAX: Owner = ("loaders", "jax")

REQUIRED: Any = ...  # in place of a default


class Differs(NamedTuple):
    """The parts of a row that are others for a kind of owner; None: the row's own."""

    type: str | None = None  # in its signature
    default: Any = REQUIRED  # in its signature
    doc: str | None = None  # the whole entry of its docstring
    more: str | None = None  # what is added to the entry


@dataclass(eq=False, repr=False)
class Option(Generic[T]):
    """A keyword argument of buffers and loaders: a row of the table.

    Of `Options`, which hold the arguments of a buffer, it is an attribute with the
    value that was checked.
    """

    check: Check[T]
    type: str  # in signatures
    default: Any = REQUIRED  # in signatures
    _: KW_ONLY
    doc: str  # its entry in docstrings; the first sentence is for docs/options.md
    has: Owner = ("buffer", "loaders")  # the kinds of owners that have it
    differs: Mapping[str, Differs] = field(default_factory=dict)  # for kinds of owners
    core: str | None = None  # its name in the core; None if that does not know it
    to_core: Callable[[T], Any] | None = None  # makes the core's form of the value
    # "always": it is part of every state; "given": of those of buffers that were given
    # it, and a state without it has the default; None: of none.
    state: Literal["always", "given"] | None = None
    # Makes its entry in a state of the value, and of all options.
    to_state: Callable[[T, Any], Any] | None = None
    for_rows: bool = False  # it makes sense with ragged leaves alone
    takes_memory: bool = False  # a buffer that was given it, a number, is larger

    @overload
    def __get__(self, instance: None, owner: Any) -> Option[T]: ...
    @overload
    def __get__(self, instance: object, owner: Any) -> T: ...
    def __get__(self, instance: object | None, owner: Any) -> Option[T] | T:
        """Return the row; of an object, which has no value of it, raise."""
        if instance is None:
            return self
        raise AttributeError("an option of loaders, not of buffers")

    def is_of(self, owner: Owner) -> bool:
        """Return True if the owner has it."""
        return any(kind in self.has for kind in owner)

    def of(self, owner: Owner) -> Differs:
        """Return type, default and doc for an owner."""
        row = Differs(self.type, self.default, self.doc)
        for kind in owner:
            other = self.differs.get(kind)
            if other is not None:
                row = Differs(
                    other.type or row.type,
                    row.default if other.default is REQUIRED else other.default,
                    other.doc or f"{row.doc}{' ' + other.more if other.more else ''}",
                )
        return row

    def is_given(self, value: Any) -> bool:
        """Return True if a value is not the default."""
        return not (isinstance(value, type(self.default)) and value == self.default)
