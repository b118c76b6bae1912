"""A logistic regression that is not separable, and its optimum.

As wide as CoverType, which no package carries: 54 features whose variances fall as a
power, so that gradient descent has far to go; labels drawn from a logistic model. The
examples are the whole population: fresh ones are drawn from them with replacement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Problem", "make"]

FEATURES = 54
POWER = 1.5  # variance of feature i: i**-POWER, scaled
TOTAL_VARIANCE = 10.0
SIGNAL = 1.0  # standard deviation of the logits, spread evenly over the features

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Problem:
    """Features `[n, d]`, labels `[n]` of 0 and 1, and the least mean loss there is."""

    features: Array
    labels: Array
    optimum: float

    def losses(self, weights: Array) -> NDArray[np.float64]:
        """Return the mean losses of weights `[..., d, r]`, as `[..., r]`."""
        logits = self.features @ weights
        of_each = np.maximum(logits, 0) - self.labels[:, None] * logits
        of_each += np.log(1 + np.exp(-np.abs(logits)))
        return of_each.mean(axis=-2, dtype=np.float64)


def make(examples: int = 8192, seed: int = 0) -> Problem:
    """Return the problem, the same for each seed."""
    chance = np.random.default_rng(seed)
    variance = np.arange(1, FEATURES + 1) ** -POWER
    deviation = np.sqrt(variance * TOTAL_VARIANCE / variance.sum())
    features = chance.standard_normal((examples, FEATURES)) * deviation
    truth = chance.standard_normal(FEATURES)
    truth *= SIGNAL / (deviation * np.linalg.norm(truth))
    chances = 1 / (1 + np.exp(-features @ truth))
    labels = (chance.random(examples) < chances).astype(np.float64)
    return Problem(
        features.astype(np.float32),
        labels.astype(np.float32),
        _least_loss(features, labels),
    )


def _least_loss(features: NDArray[np.float64], labels: NDArray[np.float64]) -> float:
    """Return the least loss, by Newton's method."""
    weights = np.zeros(features.shape[1])
    for _ in range(30):
        chances = 1 / (1 + np.exp(-features @ weights))
        gradient = features.T @ (chances - labels)
        curvature = (features.T * (chances * (1 - chances))) @ features
        weights -= np.linalg.solve(curvature, gradient)
    logits = features @ weights
    return float(np.mean(np.logaddexp(0, logits) - labels * logits))
