"""The base of operations whose random choices have an opposite."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from echobuf.transforms import arguments
from echobuf.transforms.operation import Operation

# As in `echobuf/schedule/words.hpp`.
_PAIR = 0x10000
_RECORD = 0x20000


@dataclass(frozen=True, eq=False, repr=False)
class Alternating(Operation):
    """An operation that makes the opposite choice at every second use of an example."""

    alternate: bool = dataclasses.field(default=False, kw_only=True)
    _arguments = arguments.checks(alternate=arguments.flag)

    def __repr__(self) -> str:
        names = [field.name for field in dataclasses.fields(self)]
        names.remove("alternate")
        if self.alternate:
            names.append("alternate")
        shown = [f"{name}={getattr(self, name)!r}" for name in names]
        return f"{type(self).__name__}({', '.join(shown)})"


class AlternatingFlip(Alternating):
    """An operation of two choices: one random word decides for all uses."""


def words_of(operation: Any) -> int:
    """Return what the core adds to the number of an operation in random draws."""
    if not isinstance(operation, Alternating) or not operation.alternate:
        return 0
    return _RECORD if isinstance(operation, AlternatingFlip) else _PAIR
