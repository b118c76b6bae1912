"""What peers have in common: a store that is sampled, and a stream that is echoed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from echobuf.cli.bench.candidates.workload import (
    Records,
    check_batch,
    check_uses,
    key_view,
    make_records,
)

CHUNK = 1024  # records added at a time where a store is only filled


REFRESHED = 8  # each time, one of so many parts of what a store holds


def refreshed(records: int) -> range:
    """Return starts of chunks: an eighth of the records together, or one chunk."""
    return range(0, max(CHUNK, records // REFRESHED // CHUNK * CHUNK), CHUNK)


class Store(ABC):
    """A replay buffer: `add` batches of records, `sample` batches."""

    @abstractmethod
    def open(self, settings: dict[str, Any], capacity: int) -> None:
        """Imports the peer, and makes a buffer for `capacity` records."""

    @abstractmethod
    def add(self, records: Records) -> None:
        """Adds records, stacked on axis 0."""

    @abstractmethod
    def sample(self) -> Any:
        """A batch, as the peer gives it."""

    def to_records(self, batch: Any) -> Records:
        """The batch as arrays, by the names of the fields; not timed."""
        return dict(batch)


class Sampling(Store):
    """The questions of batches drawn from records that stay."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        count = settings["records"]
        self.open(settings, count)
        self.records = make_records(settings)
        for start in range(0, count, CHUNK):
            stop = min(start + CHUNK, count)
            self.add({name: a[start:stop] for name, a in self.records.items()})

    def warm_up(self) -> None:
        for _ in range(3):
            check_batch(self.records, self.to_records(self.sample()), self.settings)

    def begin(self) -> None:
        """Replace an eighth of the records, not timed: for all candidates alike."""
        for start in refreshed(self.settings["records"]):
            self.add({n: a[start : start + CHUNK] for n, a in self.records.items()})

    def run(self) -> int:
        sample = self.sample
        for _ in range(self.settings["batches"]):
            sample()
        return int(self.settings["batches"])


class Stream:
    """A stream of fresh examples, and the settings of what echoes it."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.records = make_records(settings)
        self.images = self.records["image"]
        self.batch = settings["batch"]
        self.factor = settings["factor"]
        self.window = settings["window"]
        self.prepare()

    def prepare(self) -> None:
        """Imports the peer, and makes what lasts for all epochs."""

    def fresh_batches(self) -> Iterator[Any]:
        """Upstream, batched."""
        for start in range(0, len(self.images), self.batch):
            yield self.images[start : start + self.batch]


class Echoing(Stream, ABC):
    """The questions of a stream of fresh examples, each served e times."""

    exact = True  # every example is served exactly e times: checked in the warm-up

    @abstractmethod
    def batches(self) -> Iterator[Any]:
        """The batches of one epoch, as the peer gives them."""

    def repeated(self) -> Iterator[Any]:
        """Upstream, each example e times in a row: views."""
        for image in self.images:
            for _ in range(self.factor):
                yield image

    def warm_up(self) -> None:
        served = []
        # What a candidate does at the end is its own: batches may be shorter there.
        any_size = {**self.settings, "batch": None}
        for number, batch in enumerate(self.batches()):
            images = np.asarray(batch)
            served.append(key_view(np.ascontiguousarray(images)).copy())
            if number % 64 == 0:
                check_batch(self.records, {"image": images}, any_size)
        if self.exact:
            check_uses(served, len(self.images), self.factor)
        elif not served:
            raise AssertionError("nothing was served")

    def run(self) -> int:
        return sum(len(batch) for batch in self.batches())


class ReplayEchoing(Store, Echoing):
    """Echoing with a replay buffer: e batches sampled for each batch added."""

    exact = False

    def prepare(self) -> None:
        self.open(self.settings, self.window)

    def batches(self) -> Iterator[Any]:
        for fresh in self.fresh_batches():
            self.add({"image": fresh})
            for _ in range(self.factor):
                yield self.to_images(self.sample())

    def to_images(self, batch: Any) -> Any:
        """The images of a batch, with no copy."""
        return batch["image"]


REPLAY = (
    ("exact use", "no: uniform draws, e times on average"),
    ("shuffled", "uniformly over the window"),
    ("duplicates in a batch", "yes, with replacement"),
)
