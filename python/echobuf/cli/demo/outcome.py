"""What a demo has found: its runs, beside what the formula says of them."""

from __future__ import annotations

from dataclasses import dataclass

from echobuf.cli.demo.prediction import predict_seconds
from echobuf.cli.demo.settings import Settings
from echobuf.cli.demo.training import Run

__all__ = ["Costs", "Outcome"]

_EVEN = 0.02  # a difference in time below this share counts as none


@dataclass(frozen=True)
class Costs:
    """Seconds per example on either side of the echo buffer, measured.

    Attributes:
        upstream_s: To fetch, decode and distort a fresh example.
        downstream_s: To train on one example.
    """

    upstream_s: float
    downstream_s: float

    @property
    def ratio(self) -> float:
        """R, how many times slower the upstream is."""
        return self.upstream_s / self.downstream_s


@dataclass(frozen=True)
class Outcome:
    """All that a report needs.

    Attributes:
        settings: The choices.
        costs: What calibration measured.
        bandwidth: The server's limit in bytes a second.
        runs: The runs; the first one is the baseline.
    """

    settings: Settings
    costs: Costs
    bandwidth: float
    runs: tuple[Run, ...]

    def predicted_s(self, run: Run) -> float:
        """The time that the formula gives a run for its examples and factor."""
        costs = self.costs
        return predict_seconds(
            run.end.fresh, run.end.factor, costs.upstream_s, costs.downstream_s
        )

    def verdicts(self) -> list[str]:
        """One line a run after the first: whether echoing paid, and by how much."""
        baseline, *others = self.runs
        return [self._verdict(baseline, run) for run in others]

    def _verdict(self, baseline: Run, run: Run) -> str:
        title, goal = run.condition.title.capitalize(), f"{self.settings.target:.1%}"
        limit = f"within {self.settings.budget_s:.0f} s"
        if not run.reached:
            both = "" if baseline.reached else f", nor did {baseline.condition.title}"
            return f"{title} did not reach {goal} {limit}{both}: it did not pay."
        took = f"{title} reached {goal} in {run.end.seconds:.1f} s"
        if not baseline.reached:
            return f"{took}, {baseline.condition.title} not {limit}: it paid."
        speedup = baseline.end.seconds / run.end.seconds
        return f"{took}, {_compared(speedup, baseline)}"


def _compared(speedup: float, baseline: Run) -> str:
    other = f"{baseline.condition.title} ({baseline.end.seconds:.1f} s)"
    if abs(speedup - 1.0) < _EVEN:
        return f"as did {other}: it made no difference."
    if speedup > 1.0:
        return f"{speedup:.2f} times sooner than {other}: it paid."
    return f"{1.0 / speedup:.2f} times later than {other}: it did not pay."
