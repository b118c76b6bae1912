"""One seed of over_network.py: the time without echoing, and with each factor."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from echobuf.cli.demo.report import Costs
from echobuf.cli.demo.session import calibrate
from echobuf.cli.demo.settings import Condition
from echobuf.cli.demo.training import Run, TrainingTask, train
from echobuf.cli.demo.upstream import ServerProcess

WINDOW_BATCHES = 32
WITHOUT = Condition("none", "no echoing", "batch", 1, 2)


def echoing(factor: int) -> Condition:
    """Return example echoing before augmentation with that factor."""
    key = f"e = {factor}"
    return Condition(key, key, "example", factor, WINDOW_BATCHES, "draw")


def all_ways(factors: Sequence[int]) -> tuple[Condition, ...]:
    """Return no echoing, then echoing with each factor."""
    return WITHOUT, *map(echoing, factors)


@dataclass(frozen=True)
class SeedRuns:
    """The runs with one seed, and the costs that were measured just before them.

    Attributes:
        seed: of all of them.
        costs: of a fresh example and of a training step.
        bandwidth_kb_s: the limit of the server.
        runs: by key, in the order in which they were made.
        left_out: keys of those for which there was no time.
    """

    seed: int
    costs: Costs
    bandwidth_kb_s: float
    runs: dict[str, Run]
    left_out: tuple[str, ...] = ()

    def speedup(self, way: Condition) -> float | None:
        """Return the time without echoing over that with it; None: a target missed."""
        without, echoed = self.runs.get(WITHOUT.key), self.runs.get(way.key)
        if without is None or echoed is None:
            return None
        if not (without.reached and echoed.reached):
            return None
        return without.end.seconds / echoed.end.seconds

    def ceiling(self, way: Condition) -> float:
        """Return the speed-up if an echo were worth as much as a fresh example."""
        return min(float(way.factor), self.costs.ratio)


def train_quietly(
    task: TrainingTask, condition: Condition, until: float, **changed: Any
) -> Run:
    """Train with changed settings, until the clock says `until` at the latest."""
    left = max(0.0, until - time.perf_counter())
    changed["budget_s"] = min(left, task.settings.budget_s)
    settings = replace(task.settings, **changed)
    return train(replace(task, settings=settings), condition, lambda point: None)


def rotated(ways: Sequence[Condition], turn: int) -> list[Condition]:
    """Return the ways in the order of that turn: each turn begins with another one."""
    start = turn % len(ways)
    return [*ways[start:], *ways[:start]]


def measure(
    task: TrainingTask,
    server: ServerProcess,
    ways: Sequence[Condition],
    rates: dict[str, float],
    until: float,
) -> SeedRuns:
    """Set the bandwidth for R, then train each way, in this order, with one seed.

    A run that `until` has cut short is left out, as are those after it.
    """
    costs, bandwidth = calibrate(task, server)
    runs: dict[str, Run] = {}
    for way in ways:
        run = train_quietly(task, way, until, learning_rate=rates[way.key])
        if not run.reached and time.perf_counter() > until:
            break
        runs[way.key] = run
    left_out = tuple(way.key for way in ways if way.key not in runs)
    return SeedRuns(task.settings.seed, costs, bandwidth / 1000, runs, left_out)


def line(one: SeedRuns, ways: Sequence[Condition]) -> str:
    """Return what one seed has given, in one line."""
    texts = [_text(one, way) for way in ways if way.key in one.runs]
    return f"seed {one.seed}: R = {one.costs.ratio:.2f}; " + "; ".join(texts)


def _text(one: SeedRuns, way: Condition) -> str:
    run, speedup = one.runs[way.key], one.speedup(way)
    text = way.title + (f" {run.end.seconds:.1f} s" if run.reached else " missed")
    if way is WITHOUT or speedup is None:
        return text
    return f"{text} ({speedup:.2f} times)"


def row(one: SeedRuns, ways: Sequence[Condition]) -> dict[str, Any]:
    """Return the figures of one seed."""
    return {
        "seed": one.seed,
        "R": one.costs.ratio,
        "t_upstream_s": one.costs.upstream_s,
        "t_downstream_s": one.costs.downstream_s,
        "bandwidth_kb_s": one.bandwidth_kb_s,
        "order": list(one.runs),
        "left_out": list(one.left_out),
        "ways": {way.key: _run(one, way) for way in ways if way.key in one.runs},
    }


def _run(one: SeedRuns, way: Condition) -> dict[str, Any]:
    run = one.runs[way.key]
    return {
        "e": way.factor,
        "speedup": one.speedup(way),
        "ceiling": one.ceiling(way),
        "reached": run.reached,
        **asdict(run.end),
        "curve": [[point.seconds, point.smoothed] for point in run.points],
    }
