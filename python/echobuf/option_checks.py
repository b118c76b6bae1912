"""Checks of the values of options, in the words of their errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from echobuf.arguments import check_bool, check_int
from echobuf.errors import OptionError, show

T = TypeVar("T")
V = TypeVar("V", bound=str | None)


class Check(Generic[T]):
    """A check of one argument.

    Args:
        allowed: the values that are allowed, in words: "it must be" these.
        read: returns the value, by the argument's name and what the caller gave; or
            raises `OptionError`.
    """

    __slots__ = ("allowed", "read")

    def __init__(self, allowed: str, read: Callable[[str, Any], T]) -> None:
        self.allowed = allowed
        self.read = read


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
