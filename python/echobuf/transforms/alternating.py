"""The base of operations whose random choices have an opposite."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from echobuf.transforms import arguments
from echobuf.transforms.operation import Operation

# As in `echobuf/transform/words.hpp`.
_PAIR = 0x10000
_RECORD = 0x20000


@dataclass(frozen=True, eq=False, repr=False)
class Alternating(Operation):
    """An operation that makes the opposite choice at every second use of an example."""

    alternate: bool = dataclasses.field(default=False, kw_only=True)
    _shares = _PAIR

    def __repr__(self) -> str:
        shown = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)
            if field.name != "alternate" or self.alternate
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _check_alternate(self) -> None:
        arguments.flag(self, "alternate", self.alternate)

    @property
    def words(self) -> int:
        """What the core adds to the operation's number in random draws."""
        return self._shares if self.alternate else 0


class AlternatingAlways(Alternating):
    """One of two choices: all uses of an example share one random word."""

    _shares = _RECORD


def words_of(operation: Any) -> int:
    """Return what the core adds to the number of an operation in random draws."""
    return operation.words if isinstance(operation, Alternating) else 0
