"""The one rule for comparisons of times: round by round, the median of the ratios."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Ratio", "paired_ratio"]


@dataclass(frozen=True)
class Ratio:
    """The ratios of the rounds: their median, the least and the most."""

    median: float
    least: float
    most: float

    @property
    def range(self) -> list[float]:
        """The least and the most, for JSON."""
        return [self.least, self.most]


def paired_ratio(
    reference: Sequence[float | None], other: Sequence[float | None]
) -> Ratio:
    """Return `reference` over `other`: the speed of the other one.

    Args:
        reference: Seconds, round by round; `None` or nothing where it lacks the round.
        other: The same of the candidate that took turns with it.

    Raises:
        ValueError: There is no round that both have.
    """
    both = zip(reference, other, strict=False)
    ratios = [a / b for a, b in both if a is not None and b is not None]
    if not ratios:
        raise ValueError("there is no round that both candidates have")
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))
