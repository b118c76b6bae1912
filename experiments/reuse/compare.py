"""Conditions beside others, seed by seed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fresh.search import Tuned
from reuse.conditions import ReuseCondition

__all__ = ["Outcome", "compared", "paired"]

Counts = Sequence[int | None]


@dataclass(frozen=True)
class Outcome:
    """Runs of a condition with its best rate.

    Attributes:
        tuned: the condition, and its rate.
        fresh: fresh examples to the target, by seed; None where it was missed.
        steps: likewise.
        mean_use: of the examples that had left the window.
    """

    tuned: Tuned
    fresh: Counts
    steps: Counts
    mean_use: float | None

    @property
    def condition(self) -> ReuseCondition:
        """Return the condition."""
        condition = self.tuned.condition
        assert isinstance(condition, ReuseCondition)
        return condition


def compared(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return each way to leave examples out beside all uses, and by loss by chance.

    Fresh examples and steps are compared seed by seed: the median and the range of
    ratios, and the mean difference with its standard error.
    """
    found = {one.condition: one for one in outcomes if one.fresh}
    pairs = []
    for condition, one in found.items():
        if condition.uses == "all":
            continue
        others = [other for other in found if _is_reference(other, condition)]
        for other in others:
            pairs.append(
                {
                    "condition": str(condition),
                    "over": str(other),
                    "fresh": paired(one.fresh, found[other].fresh),
                    "steps": paired(one.steps, found[other].steps),
                }
            )
    return [pair for pair in pairs if pair["fresh"] and pair["steps"]]


def paired(counts: Counts, others: Counts) -> dict[str, float] | None:
    """Return ratios and differences of the seeds that reached the target in both."""
    both = [
        (a, b)
        for a, b in zip(counts, others, strict=True)
        if a is not None and b is not None
    ]
    if len(both) < 2:
        return None
    ratios = [a / b for a, b in both]
    differences = [a - b for a, b in both]
    return {
        "pairs": len(both),
        "fewer": sum(difference < 0 for difference in differences),
        "median": statistics.median(ratios),
        "min": min(ratios),
        "max": max(ratios),
        "mean_difference": statistics.fmean(differences),
        "standard_error": statistics.stdev(differences) / math.sqrt(len(both)),
    }


def _is_reference(other: ReuseCondition, condition: ReuseCondition) -> bool:
    if other.factor != condition.factor:
        return False
    if other.uses == "all":
        return True
    alike = other.thin == condition.thin
    return condition.uses == "loss" and other.uses == "chance" and alike
