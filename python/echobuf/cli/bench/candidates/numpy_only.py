"""Candidates of NumPy alone: plain copies, `take(out=)`, and a ring written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from echobuf.cli.bench.candidates.base import (
    CHUNK,
    Echoing,
    Records,
    Sampling,
    Stream,
    check_batch,
    make_records,
    refreshed,
)


class _Plain:
    packages: tuple[str, ...] = ("numpy",)

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.records = make_records(settings)
        self.batch = settings["batch"]
        self.batches = settings["batches"]
        self.arrays = [
            (array, np.zeros((self.batch, *array.shape[1:]), array.dtype))
            for array in self.records.values()
        ]

    def begin(self) -> None:
        """Rewrite an eighth of the records, not timed, as for all candidates."""
        for start in refreshed(self.settings["records"]):
            for array, _ in self.arrays:
                array[start : start + CHUNK] = array[start : start + CHUNK].copy()

    def check(self) -> None:
        served = dict(zip(self.records, (out for _, out in self.arrays), strict=True))
        check_batch(self.records, served, self.settings)


class Copy(_Plain):
    """Copy of consecutive records to a warm target; one thread, `numpy.copyto`."""

    guarantees = (
        ("exact use", "-"),
        ("shuffled", "no"),
        ("duplicates in a batch", "none"),
        ("batch", "copied into the same arrays each time"),
        ("timed", "the copy alone"),
    )

    def warm_up(self) -> None:
        self.run()
        self.check()

    def run(self) -> int:
        starts = range(0, self.settings["records"] - self.batch + 1, self.batch)
        for turn in range(self.batches):
            start = starts[turn % len(starts)]
            for array, out in self.arrays:
                np.copyto(out, array[start : start + self.batch])
        return int(self.batches)


class StreamingCopy(Copy):
    """Copy that bypasses the caches, as echobuf copies large batches; one thread."""

    packages = ("echobuf", "numpy")

    def run(self) -> int:
        from echobuf._core import streaming_copy

        starts = range(0, self.settings["records"] - self.batch + 1, self.batch)
        for turn in range(self.batches):
            start = starts[turn % len(starts)]
            for array, out in self.arrays:
                streaming_copy(out, array[start : start + self.batch])
        return int(self.batches)


class Take(_Plain):
    """`numpy.take(out=)` with a permutation of the window for each pass."""

    guarantees = (
        ("exact use", "once a pass, by the permutation"),
        ("shuffled", "uniformly, over the window"),
        ("duplicates in a batch", "none"),
        ("batch", "copied into the same arrays each time"),
        ("timed", "the copy, and the order of each pass unless given"),
    )

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.rng = np.random.default_rng(0)
        self.given = self.split() if settings.get("order_given") else None

    def split(self) -> list[Any]:
        order = self.rng.permutation(self.settings["records"])
        usable = len(order) // self.batch * self.batch
        return np.split(order[:usable], usable // self.batch)

    def take(self, index: Any) -> None:
        for array, out in self.arrays:
            np.take(array, index, axis=0, out=out, mode="clip")

    def warm_up(self) -> None:
        self.run()
        self.check()

    def run(self) -> int:
        done = 0
        while done < self.batches:
            for index in self.given or self.split():
                self.take(index)
                done += 1
                if done == self.batches:
                    break
        return done


class EchoCopies(Stream):
    """`numpy.copyto`, one thread, warm memory; batches are consecutive records."""

    packages = ("numpy",)
    guarantees = (
        ("exact use", "by construction: e copies of what has just come in"),
        ("shuffled", "no"),
        ("duplicates in a batch", "none"),
        ("batch", "copied into the same array each time"),
        ("timed", "the copies alone"),
    )

    def prepare(self) -> None:
        self.ring = np.zeros((self.window, *self.images.shape[1:]), np.uint8)
        self.out = np.zeros((self.batch, *self.images.shape[1:]), np.uint8)

    def warm_up(self) -> None:
        self.run()

    def run(self) -> int:
        slots = self.window // self.batch
        served = 0
        for number, fresh in enumerate(self.fresh_batches()):
            start = number % slots * self.batch
            np.copyto(self.ring[start : start + self.batch], fresh)
            for turn in range(self.factor):
                # A batch of the window, from another place each time.
                start = (number + turn * slots // self.factor) % slots * self.batch
                np.copyto(self.out, self.ring[start : start + self.batch])
                served += self.batch
        return served


GUARANTEES = (
    ("exact use", "yes"),
    ("shuffled", "each pass over the window a fresh permutation"),
    ("duplicates in a batch", "none"),
    ("batch", "copied; the caller's"),
    ("timed", "the copy and the order"),
)


class RingSample(Sampling):
    """Sampling in passes over full arrays."""

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


class RingEcho(Echoing):
    """Echoing with e segments in a ring; each pass replaces one segment."""

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
