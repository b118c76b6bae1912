"""One run: fresh examples until the target is reached."""

from __future__ import annotations

import functools
import math
import statistics
from collections import deque
from dataclasses import dataclass

from fresh.conditions import Condition

__all__ = ["EVALUATE_EVERY", "SMOOTHING", "Run", "fresh_needed"]

EVALUATE_EVERY = 10  # steps
SMOOTHING = 4  # evaluations, whose mean is to reach the target


@dataclass(frozen=True)
class Run:
    """What a run is given.

    Attributes:
        workload: its name.
        condition: how fresh examples are used.
        rate: the learning rate.
        seed: of the weights, the order, the augmentation and the window.
        most_fresh: fresh examples after which it is cut off.
        device: where the window lies and the model trains.
    """

    workload: str
    condition: Condition
    rate: float
    seed: int
    most_fresh: int
    device: str = "cpu"


@functools.cache
def _workload(name: str):
    import torch

    from workloads import workload

    torch.set_num_threads(1)  # as many runs at a time as there are cores
    return workload(name)


def fresh_needed(run: Run) -> int | None:
    """Fresh examples up to the target; None if it was not reached.

    An example has been used once one with its number, or a later one, was in a batch:
    what the loader has read ahead does not count.
    """
    import torch

    from echobuf.torch import EchoLoader

    workload, condition = _workload(run.workload), run.condition
    whole = condition.kind in ("no echoing", "batch")
    before = condition.kind == "before"
    learner = workload.learner(run.seed, run.rate, run.device)
    loader = EchoLoader(
        workload.stream(condition.batch_size, run.seed, augmented=not before),
        batched=True,
        batch_size=None if whole else condition.batch_size,
        window=condition.window // (condition.batch_size if whole else 1),
        factor=condition.factor,
        unit="batch" if whole else "example",
        seed=run.seed,
        device=run.device,
        transform=workload.transform if before else None,
    )
    recent: deque[float] = deque(maxlen=SMOOTHING)
    newest = torch.zeros((), dtype=torch.int64, device=run.device)
    for step, (*leaves, numbers) in enumerate(loader, start=1):
        learner.step(*leaves)
        newest = torch.maximum(newest, numbers.max())
        if step % EVALUATE_EVERY:
            continue
        recent.append(learner.error())
        fresh = int(newest) + 1
        if len(recent) == SMOOTHING and statistics.mean(recent) <= workload.target:
            return fresh
        if fresh >= run.most_fresh or not math.isfinite(recent[-1]):
            return None
    raise AssertionError("upstream has no end")
