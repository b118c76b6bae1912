"""One run: a generator that is slower than the updates, and a window between them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from policies.condition import Condition
from policies.learner import Learner

__all__ = ["LEARNERS", "Trial", "learn", "make_learner", "run"]

LEARNERS = ("control", "language")


@dataclass(frozen=True)
class Trial:
    """A training.

    Attributes:
        workload: the learner's name.
        condition: how rollouts are used.
        rate: the learning rate.
        seed: of the weights, the environment, actions and the window.
    """

    workload: str
    condition: Condition
    rate: float
    seed: int


def make_learner(name: str) -> type[Learner]:
    """Return the learner of that name."""
    if name == "control":
        from policies.control import Control

        return Control
    from policies.language import Language

    return Language


def run(trial: Trial) -> dict[str, Any]:
    """Train in one thread of torch."""
    import torch

    torch.set_num_threads(1)
    learner = make_learner(trial.workload)(trial.rate, trial.seed)
    return learn(learner, trial.condition)


def learn(learner: Learner, condition: Condition) -> dict[str, Any]:
    """Generate all samples of the budget, and learn from them as they arrive.

    The generator is a chunk ahead, as a process beside the updates is: it takes the
    policy as it is when a chunk is put, before the updates that this chunk allows.
    Since it is the slower side, all these updates are done by the next put. So one
    thread does both, and nothing depends on timing.

    Returns:
        At each evaluation samples, updates, reward and entropy; counts of the window;
        the mean and largest age of the samples used, in updates since the policy that
        made them; and the seconds of both sides.
    """
    curve: list[tuple[int, int, float, float]] = []
    made_at = [0]  # updates that each policy of the generator has had
    ages: list[np.ndarray] = []
    updates = samples = due = 0
    generating_s = updating_s = 0.0
    with learner.buffer(condition) as buffer:
        made = learner.generate()
        while True:
            if samples >= due:
                reward, entropy = learner.evaluate()
                curve.append((samples, updates, round(reward, 4), round(entropy, 4)))
                due += learner.evaluate_every
            if samples >= learner.budget:
                break
            made_at.append(updates)
            begin = time.perf_counter()
            following = learner.generate()
            generating_s += time.perf_counter() - begin
            learner.put(buffer, made, version=len(made_at) - 2)
            samples += learner.chunk
            made = following
            begin = time.perf_counter()
            while buffer.ready():
                batch, info = buffer.next_batch()
                ages.append(updates - np.take(made_at, info.version))
                updates += learner.update(batch)
            updating_s += time.perf_counter() - begin
        stats = buffer.stats()
    age = np.concatenate(ages)
    return {
        "curve": curve,
        "served": stats.served,
        "expired": getattr(stats, "expired", 0),
        "mean_age": round(float(age.mean()), 2),
        "largest_age": int(age.max()),
        "generating_s": round(generating_s, 2),
        "updating_s": round(updating_s, 2),
    }
