"""Workloads, as experiments use them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from echobuf import EchoBuffer, Field
from echobuf.transforms import Operation

Leaves = tuple[NDArray[Any], ...]


class Learner(Protocol):
    """A network with its optimiser."""

    def step(self, *leaves: Any) -> None:
        """Train on one batch."""

    def error(self) -> float:
        """Return the loss on the held-out examples; not finite if training diverged."""


class Workload(ABC):
    """Data, their augmentation, a model, and the error that it is to reach.

    Attributes:
        name: of the workload.
        measure: what the error is, in words.
        target: the error to reach.
        rates: learning rates to begin with, in fifths of a decade: -10 is 0.01.
        most_fresh: fresh examples after which a run without echoing has failed.
    """

    name: str
    measure: str
    target: float
    rates: range
    most_fresh: int

    @property
    @abstractmethod
    def records(self) -> Leaves:
        """Return all examples to train on, stacked, before augmentation."""

    @property
    @abstractmethod
    def transform(self) -> Mapping[int, Any]:
        """Return the augmentation, as a loader takes it."""

    @property
    def alternating(self) -> Mapping[int, Any]:
        """Return the augmentation whose second echo is opposite to the first."""
        return {
            leaf: [alternated(one) for one in chain]
            for leaf, chain in self.transform.items()
        }

    @property
    def spec(self) -> tuple[Field, ...]:
        """Return the spec of one example, before augmentation."""
        return tuple(Field(leaf.shape[1:], leaf.dtype) for leaf in self.records)

    @property
    @abstractmethod
    def about(self) -> dict[str, Any]:
        """Describe the data, for the result file."""

    @abstractmethod
    def learner(self, seed: int, rate: float, device: str, width: int) -> Learner:
        """Make a model of a relative width, with weights from the seed."""

    def augmented(self, leaves: Leaves, seed: int) -> Leaves:
        """Return examples, each augmented once."""
        return next(_augment(self, iter([leaves]), len(leaves[0]), seed))

    def stream(self, batch_size: int, seed: int, augmented: bool) -> Iterator[Leaves]:
        """Yield batches of fresh examples without end.

        The data are gone through again and again, in another order each time.

        Args:
            batch_size: of the batches.
            seed: of the order, and of the augmentation.
            augmented: whether upstream augments each example, once.
        """
        batches = self.fresh_batches(batch_size, seed)
        return _augment(self, batches, batch_size, seed) if augmented else batches

    def fresh_batches(self, batch_size: int, seed: int) -> Iterator[Leaves]:
        records = self.records
        count = len(records[0])
        chance = np.random.default_rng(seed)
        order = np.empty(0, np.int64)
        while True:
            while len(order) < batch_size:
                order = np.concatenate([order, chance.permutation(count)])
            taken, order = order[:batch_size], order[batch_size:]
            yield tuple(leaf[taken] for leaf in records)


def alternated(operation: Operation) -> Operation:
    """Return an operation with `alternate=True`."""
    return replace(operation, alternate=True)  # type: ignore[type-var]


def _augment(
    workload: Workload, batches: Iterator[Leaves], batch_size: int, seed: int
) -> Iterator[Leaves]:
    """Yield the batches, augmented by a buffer that serves each example once."""
    with EchoBuffer(
        workload.spec,
        batch_size=batch_size,
        window=batch_size,
        factor=1,
        seed=seed,
        transform=workload.transform,
    ) as buffer:
        for batch in batches:
            buffer.put_batch(batch)
            yield buffer.next_batch()
