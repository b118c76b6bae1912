"""`Option`, a row of the table of options, and the checks of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Generic, Literal, NamedTuple, TypeVar, overload

from echobuf.arguments import check_bool, check_int
from echobuf.errors import OptionError, show

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
