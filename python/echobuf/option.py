"""`Option`: a row of the table of options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, NamedTuple, TypeVar, overload

from echobuf.option_checks import Check

T = TypeVar("T")

Owner = tuple[str, ...]
"""The kinds of options that a class has; of rows that differ, the last kind counts."""

BUFFER: Owner = ("buffer",)
LOADER: Owner = ("loaders",)
TORCH: Owner = ("loaders", "ranks", "torch")
JAX: Owner = ("loaders", "jax")

REQUIRED: Any = ...  # in place of a default


class Differs(NamedTuple):
    """The parts of a row that are others for a kind of owner; None: the row's own.

    Attributes:
        type: in its signature.
        default: in its signature.
        doc: the whole entry of its docstring.
        more: what is added to the entry.
    """

    type: str | None = None
    default: Any = REQUIRED
    doc: str | None = None
    more: str | None = None


class Option(Generic[T]):
    """A keyword argument of buffers and loaders: a row of the table.

    Of `Options`, which hold the arguments of a buffer, it is an attribute with the
    value that was checked.

    Args:
        check: of the value.
        type: in signatures.
        default: in signatures.
        doc: its entry in docstrings; the first sentence is its line in docs/options.md.
        has: the kinds of owners that have it.
        differs: the parts of the row that are others for a kind of owner.
        core: the name that it has in the core; None if that does not know it.
        to_core: makes the core's form of the value.
        state: "always": it is part of every state; "given": of those of buffers that
            were given it, and a state without it has the default; None: of none.
        to_state: makes its entry in a state of the value, and of all options.
        for_rows: it makes sense with ragged leaves alone.
        takes_memory: a buffer that was given it, a number, is larger.
    """

    def __init__(
        self,
        check: Check[T],
        type: str,
        default: Any = REQUIRED,
        *,
        doc: str,
        has: Owner = ("buffer", "loaders"),
        differs: Mapping[str, Differs] | None = None,
        core: str | None = None,
        to_core: Callable[[T], Any] | None = None,
        state: Literal["always", "given"] | None = None,
        to_state: Callable[[T, Any], Any] | None = None,
        for_rows: bool = False,
        takes_memory: bool = False,
    ) -> None:
        self.check = check
        self.type = type
        self.default = default
        self.doc = doc
        self.has = has
        self.core = core
        self.to_core = to_core
        self.state = state
        self.to_state = to_state
        self.for_rows = for_rows
        self.takes_memory = takes_memory
        self._differs = differs or {}

    @overload
    def __get__(self, instance: None, owner: type) -> Option[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Option[T] | T:
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
            other = self._differs.get(kind)
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
