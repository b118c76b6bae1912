"""A ring written by hand in NumPy, with the passes that echobuf makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from echobuf.cli.bench.candidates.base import Echoing, Sampling
from echobuf.cli.bench.candidates.workload import Records

GUARANTEES = (
    ("exact use", "yes"),
    ("shuffled", "each pass over the window a fresh permutation"),
    ("duplicates in a batch", "none"),
    ("batch", "copied; the caller's"),
    ("timed", "the copy and the order"),
)


class Sample(Sampling):
    """Passes over arrays that are full."""

    packages = ("numpy",)
    guarantees = GUARANTEES

    def open(self, settings: dict[str, Any], capacity: int) -> None:
        self.ring = {
            name: np.empty((capacity, *shape), dtype)
            for name, (shape, dtype) in settings["fields"].items()
        }
        self.batch = settings["batch"]
        self.capacity = capacity
        self.filled = 0
        self.rng = np.random.default_rng(0)
        self.order = np.empty(0, np.int64)

    def add(self, records: Records) -> None:
        count = len(next(iter(records.values())))
        if self.filled + count > self.capacity:  # the oldest make room
            self.filled = 0
        for name, array in records.items():
            np.copyto(self.ring[name][self.filled : self.filled + count], array)
        self.filled += count

    def sample(self) -> Records:
        if len(self.order) < self.batch:
            self.order = self.rng.permutation(self.capacity)
        index, self.order = self.order[: self.batch], self.order[self.batch :]
        return {
            name: array.take(index, axis=0, mode="clip")
            for name, array in self.ring.items()
        }


class Echo(Echoing):
    """e segments in the ring; a segment comes and one leaves after each pass."""

    packages = ("numpy",)
    guarantees = GUARANTEES

    def prepare(self) -> None:
        self.ring = np.empty((self.window, *self.images.shape[1:]), np.uint8)
        self.ring[:] = 0
        self.rng = np.random.default_rng(0)

    def batches(self) -> Iterator[Any]:
        size = self.window // self.factor
        slots = np.arange(self.window).reshape(self.factor, size)
        segments = len(self.images) // size
        for number in range(segments + self.factor - 1):
            if number < segments:
                start = number % self.factor * size
                fresh = self.images[number * size : (number + 1) * size]
                np.copyto(self.ring[start : start + size], fresh)
            first = max(0, number - self.factor + 1)
            resident = np.arange(first, min(number + 1, segments)) % self.factor
            order = self.rng.permutation(slots[resident].ravel())
            for start in range(0, len(order), self.batch):
                index = order[start : start + self.batch]
                yield self.ring.take(index, axis=0, mode="clip")
