"""One run: fresh examples until the target is reached."""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from echobuf import EchoBuffer, Field
from fresh.conditions import Condition
from workloads.workload import Leaves, Workload

__all__ = [
    "EVALUATE_EVERY",
    "SMOOTHING",
    "Run",
    "Trial",
    "batches",
    "fresh_needed",
    "loaded",
]

EVALUATE_EVERY = 10  # steps
SMOOTHING = 4  # evaluations, whose mean is to reach the target


@dataclass(frozen=True)
class Trial:
    """A training with one learning rate and seed, however long it is.

    Attributes:
        workload: its name.
        condition: how fresh examples are used.
        rate: the learning rate.
        seed: of the weights, the order, the augmentation and the window.
        device: where the window lies and the model trains.
        width: of the model, as many times as usual.
    """

    workload: str
    condition: Condition
    rate: float
    seed: int
    _: KW_ONLY
    device: str = "cpu"
    width: int = 1


@dataclass(frozen=True)
class Run(Trial):
    """A trial that ends at the target.

    Attributes:
        most_fresh: fresh examples after which it is cut off.
    """

    _: KW_ONLY
    most_fresh: int


@functools.cache
def loaded(name: str) -> Workload:
    """Return the workload of that name, read once in each process.

    Torch then computes in one thread: as many runs at a time as there are cores.
    """
    import torch

    from workloads import workload

    torch.set_num_threads(1)
    return workload(name)


def _buffer(trial: Trial, workload: Workload, fresh: Leaves) -> EchoBuffer:
    """Return a buffer that echoes batches like this one."""
    condition = trial.condition
    whole = condition.echoes_batches
    shapes = [leaf.shape if whole else leaf.shape[1:] for leaf in fresh]
    return EchoBuffer(
        tuple(
            Field(shape, leaf.dtype) for shape, leaf in zip(shapes, fresh, strict=True)
        ),
        batch_size=None if whole else condition.batch_size,
        window=condition.window // (condition.batch_size if whole else 1),
        factor=condition.factor,
        unit="batch" if whole else "example",
        seed=trial.seed,
        device=trial.device,
        transform=_transform(condition, workload),
    )


def _transform(condition: Condition, workload: Workload) -> Mapping[int, Any] | None:
    if not condition.augments_echoes:
        return None
    opposite = condition.kind == "opposite"
    return workload.alternating if opposite else workload.transform


def batches(trial: Trial, workload: Workload) -> Iterator[tuple[int, Leaves]]:
    """Yield batches to train on, each with the fresh examples that were read so far.

    All in one thread, and nothing is read ahead: the counts do not depend on timing.
    """
    condition = trial.condition
    once = not condition.augments_echoes
    stream = workload.stream(condition.batch_size, trial.seed, once)
    first = next(stream)
    read = 0
    with _buffer(trial, workload, first) as buffer:
        put = buffer.put if condition.echoes_batches else buffer.put_batch
        for fresh in itertools.chain([first], stream):
            put(fresh, timeout=60)  # there is room: batches fill segments exactly
            read += condition.batch_size
            while buffer.ready():
                yield read, buffer.next_batch()


def fresh_needed(run: Run) -> int | None:
    """Return the fresh examples up to the target; None if it was not reached."""
    import torch

    workload = loaded(run.workload)
    learner = workload.learner(run.seed, run.rate, run.device, run.width)
    recent: deque[float] = deque(maxlen=SMOOTHING)
    for step, (fresh, leaves) in enumerate(batches(run, workload), start=1):
        learner.step(*map(torch.from_dlpack, leaves))
        if step % EVALUATE_EVERY:
            continue
        recent.append(learner.error())
        if len(recent) == SMOOTHING and statistics.mean(recent) <= workload.target:
            return fresh
        if fresh >= run.most_fresh or not math.isfinite(recent[-1]):
            return None
    raise AssertionError("upstream has no end")
