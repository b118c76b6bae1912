"""One run: the demo's model on a fixed number of fresh digits, then its accuracy."""

from __future__ import annotations

import functools
import statistics
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from shuffles.conditions import Condition
from shuffles.orders import batches

__all__ = ["BATCH", "FRESH", "Run", "accuracy"]

BATCH = 32
FRESH = 2048  # examples, distorted upstream: echoing is after augmentation
MOMENTUM = 0.9
EVALUATIONS = 4  # the last ones, whose mean counts
EVALUATE_EVERY = 8  # steps


@dataclass(frozen=True)
class Run:
    """Arguments of a run; the seed is of weights, examples and order."""

    condition: Condition
    rate: float
    seed: int
    fresh: int = FRESH


@functools.cache
def _digits() -> tuple[dict[str, bytes], Any, Any]:
    import torch

    from echobuf.cli.demo import data

    torch.set_num_threads(1)
    with TemporaryDirectory() as name:
        folder = Path(name)
        digits = data.write_digits(folder)
        files = {name: (folder / name).read_bytes() for name in digits.train}
        images, labels = map(torch.from_numpy, data.test_set(folder, digits.test))
    return files, images, labels


@functools.lru_cache(maxsize=16)
def examples(seed: int, fresh: int) -> tuple[Any, Any]:
    """Yield the fresh examples of a seed, the same under all conditions."""
    from echobuf.cli.demo import data

    files = _digits()[0]
    names = list(files)
    chance = np.random.default_rng(seed)
    passes = -(-fresh // len(names))
    order = np.concatenate([chance.permutation(len(names)) for _ in range(passes)])
    chosen = [names[i] for i in order[:fresh]]
    images = [data.augment(data.decode(files[name]), chance) for name in chosen]
    labels = [data.label_of(name) for name in chosen]
    return np.stack(images), np.asarray(labels, np.int64)


def accuracy(run: Run) -> float:
    """Train on every draw; return the share of test images classified correctly."""
    import torch

    from echobuf.cli.demo.training import Model

    _, images, labels = _digits()
    model = Model(run.seed, run.rate, MOMENTUM)
    steps = -(-run.fresh * run.condition.factor // BATCH)
    found = []
    stream = batches(examples(run.seed, run.fresh), run.condition, BATCH, run.seed)
    for step, (pixels, classes) in enumerate(stream, start=1):
        model.step(torch.tensor(pixels), torch.tensor(classes))
        left = steps - step
        if left % EVALUATE_EVERY == 0 and left < EVALUATIONS * EVALUATE_EVERY:
            found.append(model.accuracy(images, labels))
    assert step == steps
    return statistics.mean(found)
