"""Which rows of the population each step is made with, for either unit.

What a seed draws from the population, its fresh examples, is the same for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from echobuf import EchoBuffer, Field

__all__ = ["Cell", "Group", "groups"]

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Cell:
    """One point of the grid.

    Attributes:
        unit: what is echoed: the batch, by steps in a row, or examples, by a buffer.
        batch_size: B, examples a step.
        echoes: K, steps on a batch, or uses of an example.
        segments: a segment of the buffer's window in batches; the window is K of them.
    """

    unit: Literal["batch", "example"]
    batch_size: int
    echoes: int
    segments: int = 1

    @property
    def window(self) -> int:
        """Return the examples in the buffer's window."""
        return self.batch_size * self.echoes * self.segments


@dataclass(frozen=True)
class Group:
    """K steps: the rows `[seeds, B]` of each batch, and how often it is stepped on.

    Attributes:
        fresh: fresh examples taken in up to here, by each seed.
        batches: one batch for K steps, or K batches for one step each.
        steps: on each of them.
    """

    fresh: int
    batches: list[Rows]
    steps: int


def groups(cell: Cell, population: int, seeds: Sequence[int]) -> Iterator[Group]:
    """Yield the steps of all seeds side by side, K at a time, without end."""
    chances = [np.random.default_rng(seed) for seed in seeds]
    if cell.unit == "batch":
        return _same_batch(cell, population, chances)
    return _example_echoing(cell, population, chances, seeds)


def _fresh(count: int, population: int, chance: np.random.Generator) -> Rows:
    return chance.integers(population, size=count)


def _same_batch(
    cell: Cell, population: int, chances: Sequence[np.random.Generator]
) -> Iterator[Group]:
    fresh = 0
    while True:
        fresh += cell.batch_size
        rows = [_fresh(cell.batch_size, population, chance) for chance in chances]
        yield Group(fresh, [np.stack(rows)], cell.echoes)


def _example_echoing(
    cell: Cell,
    population: int,
    chances: Sequence[np.random.Generator],
    seeds: Sequence[int],
) -> Iterator[Group]:
    """Yield draws of buffers that get a segment whenever they have no batch left."""
    buffers = [
        EchoBuffer(
            Field((), np.int64),
            batch_size=cell.batch_size,
            window=cell.window,
            factor=cell.echoes,
            seed=seed,
        )
        for seed in seeds
    ]
    segment = cell.batch_size * cell.segments
    fresh = 0
    while True:
        batches = []
        for _ in range(cell.echoes):
            if not buffers[0].ready():
                fresh += segment
                for buffer, chance in zip(buffers, chances, strict=True):
                    buffer.put_batch(_fresh(segment, population, chance))
            batches.append(np.stack([buffer.next_batch() for buffer in buffers]))
        yield Group(fresh, batches, 1)
