"""NumPy alone: the plain copy that all is compared with, and `take(out=)`."""

from __future__ import annotations

from typing import Any

import numpy as np

from echobuf.cli.bench.candidates.base import CHUNK, refreshed
from echobuf.cli.bench.candidates.workload import check_batch, make_records


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
        """Write an eighth of the records anew, not timed: for all candidates alike."""
        for start in refreshed(self.settings["records"]):
            for array, _ in self.arrays:
                array[start : start + CHUNK] = array[start : start + CHUNK].copy()

    def check(self) -> None:
        served = dict(zip(self.records, (out for _, out in self.arrays), strict=True))
        check_batch(self.records, served, self.settings)


class Copy(_Plain):
    """Copies consecutive records into a warm target; one thread, `numpy.copyto`."""

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
    """The same past the caches, as echobuf copies large batches; one thread."""

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
