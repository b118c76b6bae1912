"""What over_network.py finds out before it measures: a width, and learning rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from echobuf.cli.demo.calibration import calibrate
from echobuf.cli.demo.serving import ServerProcess
from echobuf.cli.demo.settings import Condition
from echobuf.cli.demo.task import Task
from network_pair import train_quietly

SEED = 100
UNLIMITED_KB_S = 1e9
WIDEST = 32
CLEARLY = 0.8  # of the R wanted


def wide_enough(task: Task, server: ServerProcess) -> Task:
    """The task with a model so wide that R is to be had: a GPU is fast.

    Even without a limit on its bandwidth the upstream takes its time. The model is made
    wider until R would then be clearly below the one wanted.
    """
    width = 1
    while width < WIDEST and _least_ratio(task, server, width) > (
        CLEARLY * task.settings.ratio
    ):
        width *= 2
    return replace(task, settings=replace(task.settings, width=width))


def _least_ratio(task: Task, server: ServerProcess, width: int) -> float:
    settings = replace(
        task.settings, width=width, bandwidth_kb_s=UNLIMITED_KB_S, calibration_s=0.5
    )
    return calibrate(replace(task, settings=settings), server)[0].ratio


def fresh_needed(
    task: Task, server: ServerProcess, condition: Condition, rates: Sequence[float]
) -> dict[float, int | None]:
    """Fresh examples to the target for each learning rate; None: not reached."""
    server.set_bandwidth(1000 * UNLIMITED_KB_S)
    needed = {}
    for rate in rates:
        run = train_quietly(task, condition, seed=SEED, learning_rate=rate)
        needed[rate] = run.end.fresh if run.reached else None
    return needed


def best(needed: dict[float, int | None]) -> float:
    """The rate that needs the fewest fresh examples."""
    return min(needed, key=lambda rate: needed[rate] or float("inf"))
