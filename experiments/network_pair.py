"""One seed of over_network.py: the time without echoing, and with it."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from echobuf.cli.demo.calibration import calibrate
from echobuf.cli.demo.outcome import Costs
from echobuf.cli.demo.serving import ServerProcess
from echobuf.cli.demo.settings import Condition
from echobuf.cli.demo.task import Task
from echobuf.cli.demo.training import Run, train

FACTOR = 5
WITHOUT = Condition("none", "no echoing", "batch", 1, 2)
WITH = Condition("before", "before augmentation", "example", FACTOR, 32, "draw")


@dataclass(frozen=True)
class Pair:
    """Both runs with one seed, and the costs that were measured just before them."""

    seed: int
    costs: Costs
    bandwidth_kb_s: float
    without: Run
    echoed: Run

    @property
    def speedup(self) -> float | None:
        """Time without echoing over time with it; None if a target was missed."""
        if not (self.without.reached and self.echoed.reached):
            return None
        return self.without.end.seconds / self.echoed.end.seconds

    @property
    def ceiling(self) -> float:
        """The speed-up if an echo were worth as much as a fresh example."""
        return min(FACTOR, self.costs.ratio)


def train_quietly(
    task: Task, condition: Condition, until: float, **changed: Any
) -> Run:
    """A run with changed settings, that ends when the clock says `until`."""
    left = max(0.0, until - time.perf_counter())
    changed["budget_s"] = min(left, task.settings.budget_s)
    settings = replace(task.settings, **changed)
    return train(replace(task, settings=settings), condition, lambda point: None)


def measure(
    task: Task,
    server: ServerProcess,
    rates: dict[str, float],
    until: float,
    *,
    echoed_first: bool,
) -> Pair:
    """Sets the bandwidth for R, then trains both ways with the task's seed."""
    costs, bandwidth = calibrate(task, server)
    ways = (WITH, WITHOUT) if echoed_first else (WITHOUT, WITH)
    runs = {
        way.key: train_quietly(task, way, until, learning_rate=rates[way.key])
        for way in ways
    }
    without, echoed = runs[WITHOUT.key], runs[WITH.key]
    return Pair(task.settings.seed, costs, bandwidth / 1000, without, echoed)


def line(pair: Pair) -> str:
    """What one seed has given, in one line."""
    took = [
        f"{run.end.seconds:.1f} s" if run.reached else "target missed"
        for run in (pair.without, pair.echoed)
    ]
    speedup = "no figure" if pair.speedup is None else f"{pair.speedup:.2f} times"
    return (
        f"seed {pair.seed}: R = {pair.costs.ratio:.2f}; without {took[0]}, e = "
        f"{FACTOR} {took[1]}: {speedup}, ceiling {pair.ceiling:.2f}"
    )


def row(pair: Pair) -> dict[str, Any]:
    """The figures of one seed."""
    figures: dict[str, Any] = {
        "seed": pair.seed,
        "speedup": pair.speedup,
        "ceiling": pair.ceiling,
        "R": pair.costs.ratio,
        "t_upstream_s": pair.costs.upstream_s,
        "t_downstream_s": pair.costs.downstream_s,
        "bandwidth_kb_s": pair.bandwidth_kb_s,
    }
    for key, run in (("without", pair.without), ("echoed", pair.echoed)):
        curve = [[point.seconds, point.smoothed] for point in run.points]
        figures[key] = {"reached": run.reached, **asdict(run.end), "curve": curve}
    return figures
