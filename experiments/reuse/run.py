"""One run: fresh examples and steps until the target is reached."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echobuf import BatchInfo, EchoBuffer
from fresh.conditions import BATCH
from fresh.run import EVALUATE_EVERY, SMOOTHING, Run, loaded
from reuse.conditions import ReuseCondition
from workloads.workload import Leaves, Workload

__all__ = ["batches", "needed"]

Losses = NDArray[np.float32]
_CHANCE_SEED = 17
_READ_BETWEEN = EVALUATE_EVERY * BATCH  # two evaluations, at most


def needed(run: Run) -> dict[str, Any]:
    """Return the fresh examples, steps and uses up to the target.

    The first two are None if it was not reached. `mean_use` is how often those examples
    were used that had left the window; None if none had.
    """
    import torch

    workload = loaded(run.workload)
    learner = workload.learner(run.seed, run.rate, run.device, run.width)
    weighted = _condition(run).uses == "loss"
    recent: deque[float] = deque(maxlen=SMOOTHING)
    most_read = run.most_fresh + run.condition.window + _READ_BETWEEN
    uses = np.zeros(most_read, np.int64)
    drawn = batches(run, workload)
    losses: Losses | None = None
    for step in range(1, 10**9):
        fresh, leaves, info = drawn.send(losses) if step > 1 else next(drawn)
        np.add.at(uses, info.index, 1)
        weight = info.weight if weighted else np.ones_like(info.weight)
        tensors = map(torch.from_dlpack, leaves)
        losses = learner.weighted_step(torch.from_numpy(weight), *tensors).numpy()
        if step % EVALUATE_EVERY:
            continue
        recent.append(learner.error())
        reached = len(recent) == SMOOTHING and (
            statistics.mean(recent) <= workload.target
        )
        failed = fresh >= run.most_fresh or not math.isfinite(recent[-1])
        if reached or failed:
            left = uses[: max(0, fresh - 2 * run.condition.window)]
            return {
                "fresh": fresh if reached else None,
                "steps": step if reached else None,
                "mean_use": float(left.mean()) if len(left) else None,
            }
    raise AssertionError("upstream has no end")


def batches(
    run: Run, workload: Workload
) -> Iterator[tuple[int, Leaves, BatchInfo]] | Any:
    """Yield batches, each with the fresh examples read so far and its infos.

    A generator to which the losses of the last batch are sent. All in one thread, and
    nothing is read ahead: the batches do not depend on timing.
    """
    condition = _condition(run)
    stream = workload.stream(condition.batch_size, run.seed, augmented=False)
    report_order = _report_order(condition, run.seed)
    read = 0
    with EchoBuffer(
        workload.spec,
        batch_size=condition.batch_size,
        window=condition.window,
        factor=condition.factor,
        seed=run.seed,
        transform=workload.transform,
        with_info=True,
        reuse=None if condition.uses == "all" else "loss",
        thin=condition.thin,
    ) as buffer:
        for fresh in stream:
            # There is room: batches fill segments exactly.
            buffer.put_batch(fresh, timeout=60)
            read += condition.batch_size
            while buffer.ready():
                leaves, info = buffer.next_batch()
                losses = yield read, leaves, info
                if condition.uses != "all":
                    buffer.report(info, losses[report_order(len(losses))])


def _condition(run: Run) -> ReuseCondition:
    condition = run.condition
    assert isinstance(condition, ReuseCondition)
    return condition


def _report_order(
    condition: ReuseCondition, seed: int
) -> Callable[[int], NDArray[np.int64]]:
    """Return a function of a batch's length: whose loss is reported for each row."""
    if condition.uses != "chance":
        return np.arange
    return np.random.default_rng([_CHANCE_SEED, seed]).permutation
