"""Data whose items follow from their index and generation, and a slow reference."""

from __future__ import annotations

from typing import Any

import numpy as np

from echobuf.cache import CachedDataset, get_renewal


class Renewed:
    """Arrays of random numbers, whose lengths differ by index and generation.

    Attributes:
        made: pairs of the index and the generation of items made, in this process.
    """

    def __init__(self, count: int = 12) -> None:
        self.count = count
        self.made: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        renewal = get_renewal()
        assert renewal is not None
        assert renewal.index == index
        self.made.append((index, renewal.generation))
        return item(index, renewal.generation, renewal.seed)


class Drawn:
    """Numbers of an item's seed, or of the global generators.

    Here, since spawned workers import this module: torch only where it is to draw.
    """

    def __init__(self, count: int, source: str) -> None:
        self.count = count
        self.source = source
        if source == "torch":
            import torch

            self.of_torch = torch.rand  # whoever unpickles it imports torch

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        if self.source == "seed":
            renewal = get_renewal()
            assert renewal is not None
            numbers = np.random.default_rng(renewal.seed).random(3)
        elif self.source == "numpy":
            numbers = np.random.rand(3)
        else:
            numbers = self.of_torch(3).numpy()
        return {"x": numbers, "index": np.int64(index)}


def item(index: int, generation: int, seed: int) -> dict[str, Any]:
    length = 100 + 37 * (index + 5 * generation) % 400
    numbers = np.random.default_rng(seed).integers(0, 256, length, np.uint8)
    return {"x": numbers, "index": index, "generation": generation}


def check(got: Any, index: int, generation: int) -> None:
    """Check an item: its numbers follow from the seed that it was made from."""
    seeds: dict[str, int] = {}

    def note(_: int) -> int:
        renewal = get_renewal()
        assert renewal is not None
        seeds["seed"] = renewal.seed
        return 0

    from echobuf.cache.renewal import Schedule

    schedule = Schedule(1, 0)
    schedule.set_epoch(generation)
    schedule.make(schedule.keys([index])[0], note)
    expected = item(index, generation, seeds["seed"])
    assert (got["index"], got["generation"]) == (index, generation)
    np.testing.assert_array_equal(got["x"], expected["x"])


def reference(count: int, renew: int, epochs: int) -> list[list[int]]:
    """Return the generations by epoch and index: counted, not computed."""
    ages = [index % renew for index in range(count)]
    generations = [0] * count
    table = []
    for _ in range(epochs):
        table.append(list(generations))
        for index in range(count):
            ages[index] += 1
            if ages[index] == renew:
                ages[index] = 0
                generations[index] += 1
    return table


def make(directory: Any, renew: int = 3, **kwargs: Any) -> CachedDataset:
    source = kwargs.pop("source") if "source" in kwargs else Renewed()
    kwargs = {"max_bytes": 10**6, "identity": "renewed", **kwargs}
    return CachedDataset(source, directory=directory, renew=renew, **kwargs)


def read_epoch(cached: CachedDataset, epoch: int, renew: int = 3) -> None:
    """Read and check all items of an epoch."""
    cached.set_epoch(epoch)
    row = reference(len(cached), renew, epoch + 1)[epoch]
    for index in range(len(cached)):
        check(cached[index], index, row[index])
