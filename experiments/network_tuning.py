"""Preparation of over_network.py: a width, and learning rates."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from echobuf.cli.demo.session import calibrate
from echobuf.cli.demo.settings import Condition
from echobuf.cli.demo.training import TrainingTask
from echobuf.cli.demo.upstream import ServerProcess
from network_ways import train_quietly

SEED = 100
UNLIMITED_KB_S = 1e9
WIDEST = 32
CLEARLY = 0.8  # of the R wanted
MOST_S = 40.0  # of a run: three times as long as one takes that learns


def wide_enough(task: TrainingTask, server: ServerProcess) -> TrainingTask:
    """Return the task with a model wide enough for the R wanted, as GPUs are fast.

    Even without a limit on its bandwidth the upstream takes its time. The model is made
    wider until R would then be clearly below the one wanted.
    """
    width = 1
    while width < WIDEST and _least_ratio(task, server, width) > (
        CLEARLY * task.settings.ratio
    ):
        width *= 2
    return replace(task, settings=replace(task.settings, width=width))


def _least_ratio(task: TrainingTask, server: ServerProcess, width: int) -> float:
    settings = replace(task.settings, width=width, bandwidth_kb_s=UNLIMITED_KB_S)
    return calibrate(replace(task, settings=settings), server)[0].ratio


def tune(
    task: TrainingTask,
    server: ServerProcess,
    ways: Sequence[Condition],
    rates: Sequence[float],
    until: float,
    latest: float,
) -> dict[str, dict[float, int | None]]:
    """Return fresh examples to the target, by way and rate; None: not reached.

    All ways try the same rates: at least the first one, and then as many as have begun
    when the clock says `until`; all has ended when it says `latest`.
    """
    server.set_bandwidth(1000 * UNLIMITED_KB_S)
    most = min(MOST_S, task.settings.budget_s)
    task = replace(task, settings=replace(task.settings, budget_s=most))
    needed: dict[str, dict[float, int | None]] = {way.key: {} for way in ways}
    for turn, rate in enumerate(rates):
        if turn and time.perf_counter() > until:
            print(f"left out, no time: learning rates {list(rates[turn:])}")
            break
        for way in ways:
            run = train_quietly(task, way, latest, seed=SEED, learning_rate=rate)
            needed[way.key][rate] = run.end.fresh if run.reached else None
    return needed


def best(needed: dict[float, int | None]) -> float:
    """Return the rate that needs the fewest fresh examples."""
    return min(needed, key=lambda rate: needed[rate] or float("inf"))
