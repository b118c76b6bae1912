"""The ways to order the echoes of a stream that are compared, in the same memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["KINDS", "Condition", "Kind", "distinct_share"]

Kind = Literal["passes", "shuffle", "shuffle, same bytes"]

KINDS: tuple[Kind, ...] = ("passes", "shuffle", "shuffle, same bytes")


@dataclass(frozen=True)
class Condition:
    """One order of draws.

    Attributes:
        kind: echobuf's passes; or tf.data's shuffle of repeated examples, whose buffer
            has as many entries as the memory records, or as many as make its distinct
            examples so many (repeats of an example share its tensors).
        factor: uses of each example.
        memory: records: window and one segment, or the shuffle buffer.
    """

    kind: Kind
    factor: int
    memory: int

    def __str__(self) -> str:
        return f"{self.kind}, e = {self.factor}, {self.memory} records"

    @property
    def size(self) -> int:
        """Return the largest window that fits, or the entries of the shuffle buffer."""
        if self.kind == "passes":
            return _largest_window(self.memory, self.factor)
        if self.kind == "shuffle":
            return self.memory
        return round(self.memory / distinct_share(self.factor))


def _largest_window(memory: int, factor: int) -> int:
    window = memory * factor // (factor + 1)
    while window + 1 + -(-(window + 1) // factor) <= memory:
        window += 1
    return window


def distinct_share(factor: int) -> float:
    """Return the distinct examples over the entries of a buffer of shuffled repeats.

    An entry stays a geometric time, whose mean is the buffer's size; of `factor`
    entries that come together, at least one is left for 1 + 1/2 + ... + 1/factor such
    means, and one example comes with every `factor` draws.
    """
    return sum(1 / k for k in range(1, factor + 1)) / factor
