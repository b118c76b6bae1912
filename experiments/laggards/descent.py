"""Stochastic gradient descent of many seeds and learning rates side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from laggards.echoes import Cell, groups
from laggards.problem import Problem

__all__ = ["Point", "descend", "paths"]

SPACING = 1.03  # between fresh examples of two evaluations
_LOST = 3.0  # times the first loss: a rate whose mean loss is beyond has diverged

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Point:
    """An evaluation: losses `[seeds, rates]`, infinite where a rate has diverged."""

    fresh: int
    steps: int
    losses: NDArray[np.float64]


def descend(
    weights: Array, features: Array, labels: Array, rates: Array, steps: int
) -> None:
    """Make `steps` gradient steps on one batch a seed, in place.

    Args:
        weights: `[seeds, d, rates]`.
        features: `[seeds, B, d]`.
        labels: `[seeds, B]`.
        rates: `[rates]`.
        steps: on the same batch.
    """
    scale = rates / np.float32(features.shape[1])
    across = features.transpose(0, 2, 1)
    for _ in range(steps):
        chances = 1 / (1 + np.exp(-(features @ weights)))
        chances -= labels[:, :, None]
        weights -= scale * (across @ chances)


def paths(
    problem: Problem, cell: Cell, rates: Sequence[float], seeds: Sequence[int]
) -> Iterator[Point]:
    """Return the losses over the fresh examples, at most every K steps."""
    width = problem.features.shape[1]
    kept = np.arange(len(rates))
    every_rate = np.asarray(rates, np.float32)
    weights = np.zeros((len(seeds), width, len(rates)), np.float32)
    lost = _LOST * float(np.log(2))
    due, steps = 0.0, 0
    for group in groups(cell, len(problem.labels), seeds):
        with np.errstate(over="ignore"):
            for rows in group.batches:
                batch = problem.features[rows], problem.labels[rows]
                descend(weights, *batch, every_rate[kept], group.steps)
        steps += cell.echoes
        if steps < due:
            continue
        due = steps * SPACING
        losses = np.full((len(seeds), len(rates)), np.inf)
        losses[:, kept] = problem.losses(weights)
        yield Point(group.fresh, steps, losses)
        sound = losses[:, kept].mean(axis=0) < lost
        if not sound.all():
            weights = np.ascontiguousarray(weights[:, :, sound])
            kept = kept[sound]
