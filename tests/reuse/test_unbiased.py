"""Means weighted by `info.weight` are those of plain echoing, in expectation.

Draws are keyed by seed and epoch: epochs are independent, and the same in each run.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import echobuf

FAR = 4.5
"""Standard errors: of 2,000 true means less than one in seventy lies beyond that."""
EPOCHS = 2_000
FEATURES = 4
Array = np.ndarray[Any, np.dtype[Any]]
LossesOf = Callable[[Array], Array]


def examples(count: int) -> tuple[Array, Array]:
    """Return features and labels, of which the model reads some badly."""
    chance = np.random.default_rng(3)
    x = chance.normal(size=(count, FEATURES))
    noise = chance.normal(size=count)
    return x, (x @ [1.0, -2.0, 0.5, 0.0] + noise > 0.3).astype(np.float64)


class LogisticModel:
    """A model at fixed weights; losses and gradients of all examples."""

    def __init__(self, count: int) -> None:
        x, y = examples(count)
        self.scores = x @ [0.7, -0.9, 0.1, 0.2]
        guess = 1 / (1 + np.exp(-self.scores))
        self.losses = -np.log(np.where(y == 1, guess, 1 - guess))
        self.gradients = (guess - y)[:, None] * x


def uses(
    buffer: echobuf.EchoBuffer, count: int, losses_of: LossesOf | None
) -> tuple[Array, Array]:
    """Return how often an epoch served each example, and the sum of its weights."""
    numbers = np.arange(count)
    drawn, weights = np.zeros(count, int), np.zeros(count)
    done = 0
    while True:
        done += buffer_room(buffer, numbers, done)
        try:
            _, info = buffer.next_batch(timeout=60)
        except StopIteration:
            buffer.reset()
            return drawn, weights
        np.add.at(drawn, info.index, 1)
        np.add.at(weights, info.index, info.weight)
        if losses_of is not None:
            buffer.report(info, losses_of(info.index))


def buffer_room(buffer: echobuf.EchoBuffer, numbers: Array, done: int) -> int:
    """Put what there is room for; return how many these are."""
    if done == len(numbers):
        return 0
    try:
        buffer.put_batch(numbers[done:], timeout=0)
    except TimeoutError as error:
        return int(error.accepted)  # type: ignore[attr-defined]
    buffer.close()
    return len(numbers) - done


def epochs(
    count: int, losses_of: LossesOf, number: int, **arguments: Any
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield uses, sums of weights and the uses of plain echoing, of each epoch."""
    common = {"spec": np.int64(0), "seed": 11, "with_info": True}
    thin = arguments.pop("thin")
    with (
        echobuf.EchoBuffer(**common, **arguments, reuse="loss", thin=thin) as buffer,
        echobuf.EchoBuffer(**common, **arguments) as plain,
    ):
        for _ in range(number):
            yield *uses(buffer, count, losses_of), uses(plain, count, None)[0]


def standard_errors(differences: Array) -> Array:
    """Return by how many standard errors each column's mean is away from 0."""
    spread = differences.std(axis=0, ddof=1) / math.sqrt(len(differences))
    mean = differences.mean(axis=0)
    assert not mean[spread == 0].any()
    return np.divide(mean, spread, out=np.zeros_like(mean), where=spread > 0)


@pytest.mark.parametrize(
    ("losses", "arguments"),
    [
        ("fixed", {"factor": 4, "thin": 0.5, "window": 16, "batch_size": 8}),
        ("by chance", {"factor": 2, "thin": 0.8, "window": 16, "batch_size": 5}),
        ("fixed", {"factor": 2.5, "thin": 0.3, "window": 18, "batch_size": 6}),
    ],
)
def test_weighted_gradients_have_the_mean_of_plain_echoing(
    losses: str, arguments: dict[str, Any]
) -> None:
    count = 40
    model = LogisticModel(count)
    chance = np.random.default_rng(5)

    def losses_of(index: Array) -> Array:
        # By chance: which losses are low changes from draw to draw.
        noise = chance.normal(size=len(index)) if losses == "by chance" else 0.0
        return model.losses[index] + noise

    with_weights, without = [], []
    for drawn, weights, plain in epochs(count, losses_of, EPOCHS, **arguments):
        with_weights.append(weights - plain)
        without.append(drawn - plain)
    of_weights, of_counts = np.array(with_weights), np.array(without)

    # An example's weights in an epoch have the sum of its uses in the mean, ...
    assert np.abs(standard_errors(of_weights)).max() < FAR
    # ... and so the gradients of an epoch that of plain echoing.
    assert np.abs(standard_errors(of_weights @ model.gradients)).max() < FAR
    # Records were left out, and without weights the gradient is another.
    assert of_counts.sum() < 0
    assert np.abs(standard_errors(of_counts @ model.gradients)).max() > 5 * FAR


@pytest.mark.parametrize(("factor", "window", "thin"), [(4, 16, 0.5), (3, 32, 0.3)])
def test_low_losses_are_used_as_often_as_said_and_high_ones_by_the_factor(
    factor: int, window: int, thin: float
) -> None:
    count, number = 32, 300
    low = np.arange(count) % 2 == 1

    def losses_of(index: Array) -> Array:
        return np.where(low[index], 0.25, 4.0)

    # Batches of one: each loss is there before the next pass begins.
    arguments = {"factor": factor, "thin": thin, "window": window, "batch_size": 1}
    drawn = np.array(
        [each for each, *_ in epochs(count, losses_of, number, **arguments)]
    )
    assert (drawn[:, ~low] == factor).all()
    later = drawn[:, low] - 1  # after the first pass, in which no loss is known
    trials, kept = later.size * (factor - 1), later.sum()
    assert later.min() >= 0
    expected = trials * (1 - thin)
    assert abs(kept - expected) < FAR * math.sqrt(expected * thin)
    for passes in range(factor):  # the coins of a record's passes are independent
        share = math.comb(factor - 1, passes) * (1 - thin) ** passes
        share *= thin ** (factor - 1 - passes)
        spread = math.sqrt(later.size * share * (1 - share))
        assert abs((later == passes).sum() - later.size * share) < FAR * spread
