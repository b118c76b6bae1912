"""Final errors beside those of no echoing, seed by seed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from quality.search import Finished

__all__ = ["QUANTILE", "Difference", "difference", "plain_of"]

# Of Student's t with four degrees of freedom, for a two-sided interval of 95 %: five
# seeds. Chosen before the first run that counts.
QUANTILE = 2.776

Verdict = Literal["worse", "better", "no difference found"]


@dataclass(frozen=True)
class Difference:
    """Differences to no echoing with the same seed; above 0, echoing is worse.

    Attributes:
        by_seed: of the final errors; None where either run diverged.
        verdict: worse or better where the mean is beyond `QUANTILE` standard errors. A
            condition of which more runs diverged than without echoing is worse.
    """

    by_seed: tuple[float | None, ...]
    verdict: Verdict

    @property
    def mean(self) -> float | None:
        """Return the mean over seeds; None where a run diverged."""
        values = _values(self.by_seed)
        return None if values is None else statistics.mean(values)

    @property
    def standard_error(self) -> float | None:
        """Return the standard error of that mean; None where a run diverged."""
        values = _values(self.by_seed)
        return None if values is None else _standard_error(values)


def difference(one: Finished, plain: Finished) -> Difference:
    """Compare a condition with no echoing, seed by seed."""
    pairs = zip(one.outcomes, plain.outcomes, strict=True)
    by_seed = tuple(
        None if a.error is None or b.error is None else a.error - b.error
        for a, b in pairs
    )
    return Difference(by_seed, _verdict(by_seed, one.diverged - plain.diverged))


def plain_of(finished: Sequence[Finished]) -> Finished | None:
    """Return no echoing, where it is done."""
    return next((one for one in finished if one.condition.factor == 1), None)


def _verdict(by_seed: Sequence[float | None], more_diverged: int) -> Verdict:
    if more_diverged:
        return "worse" if more_diverged > 0 else "better"
    values = _values(by_seed)
    if values is None:
        return "no difference found"
    bound = QUANTILE * _standard_error(values)
    mean = statistics.mean(values)
    if abs(mean) <= bound:
        return "no difference found"
    return "worse" if mean > 0 else "better"


def _values(by_seed: Sequence[float | None]) -> list[float] | None:
    values = [value for value in by_seed if value is not None]
    return values if len(values) == len(by_seed) else None


def _standard_error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values))
