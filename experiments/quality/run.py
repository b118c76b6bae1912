"""One run: training for a fixed number of steps, and its error at the end."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from fresh.conditions import BATCH
from fresh.run import EVALUATE_EVERY, Trial, batches, loaded
from fresh.run_log import RunLog
from workloads import Workload

__all__ = [
    "BUDGETS",
    "DIVERGED",
    "LAST",
    "NEEDED",
    "TIMES",
    "FinalRun",
    "Outcome",
    "QualityLog",
    "best_error",
    "budget",
    "final_error",
    "outcome_of",
    "trained",
]

# Every rule here was chosen before the first run that counts, and stays as it is.
LAST = 10  # evaluations at the end, whose mean is the final error
TIMES = 3  # of the steps that no echoing needs to the target
DIVERGED = 0.8  # of the error before the first step: a final error from there on

# Fresh examples to the target without echoing, the median of five seeds, as
# `results/fresh_examples.json` of commit e8c5c35 has them. They stay as they are when
# that file is taken again: the budget is a choice, and no result.
NEEDED = {"images": 18_240, "text": 11_200}


def budget(fresh: float) -> int:
    """Return the steps of every run, from what no echoing needs to the target.

    Three times its steps, up to the next evaluation.
    """
    steps = TIMES * fresh / BATCH
    return math.ceil(steps / EVALUATE_EVERY) * EVALUATE_EVERY


BUDGETS = {name: budget(fresh) for name, fresh in NEEDED.items()}


@dataclass(frozen=True)
class FinalRun(Trial):
    """A trial that ends after a number of steps.

    Attributes:
        steps: how many.
    """

    _: KW_ONLY
    steps: int


@dataclass(frozen=True)
class Outcome:
    """The errors of a run, None where it diverged, and the examples it read.

    Attributes:
        error: the mean of the last evaluations.
        best: the least mean of as many evaluations in a row, at any time.
        fresh: fresh examples that were read.
        steps: that were made; fewer than wanted only once an error is not finite.
    """

    error: float | None
    best: float | None
    fresh: int
    steps: int


class QualityLog(RunLog[FinalRun]):
    """A log of outcomes."""

    # The run's `steps` are wanted, and the outcome's are those that were made.
    outcome = ("error", "best", "fresh", "steps_made")

    def read(self, row: dict[str, Any]) -> Outcome:
        """Return the outcome that a line holds."""
        return Outcome(*(row[name] for name in self.outcome))

    def written(self, outcome: Outcome) -> dict[str, Any]:
        """Return the fields of a line."""
        values = outcome.error, outcome.best, outcome.fresh, outcome.steps
        return dict(zip(self.outcome, values, strict=True))


def outcome_of(run: FinalRun) -> Outcome:
    """Train for as many steps as the run says."""
    return trained(run, loaded(run.workload))


def final_error(start: float, errors: Sequence[float]) -> float | None:
    """Return the mean of the last evaluations; None: the run diverged.

    A network that has diverged may still name a class for each image, and so have a
    finite error: hence the comparison with the error before the first step.
    """
    if not errors or not all(map(math.isfinite, errors)):
        return None
    error = statistics.mean(errors[-LAST:])
    return None if error >= DIVERGED * start else error


def best_error(errors: Sequence[float]) -> float:
    """Return the least mean of as many evaluations in a row as the final error has."""
    ends = range(min(LAST, len(errors)), len(errors) + 1)
    return min(statistics.mean(errors[max(0, end - LAST) : end]) for end in ends)


def trained(run: FinalRun, workload: Workload) -> Outcome:
    """Train on a workload for as many steps as the run says."""
    import torch

    learner = workload.learner(run.seed, run.rate, run.device, run.width)
    start = learner.error()
    errors: list[float] = []
    fresh = step = 0
    stream = itertools.islice(batches(run, workload), run.steps)
    for step, (read, leaves) in enumerate(stream, start=1):
        learner.step(*map(torch.from_dlpack, leaves))
        fresh = read
        if step % EVALUATE_EVERY == 0:
            errors.append(learner.error())
            if not math.isfinite(errors[-1]):
                break
    error = final_error(start, errors)
    return Outcome(error, None if error is None else best_error(errors), fresh, step)
