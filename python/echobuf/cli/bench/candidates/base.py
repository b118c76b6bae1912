"""Base classes of candidates, the records they work on, and checks of batches."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

CHUNK = 1024  # records added at a time where a store is only filled


REFRESHED = 8  # parts of a store, one of which is replaced at a time


def refreshed(records: int) -> range:
    """Return the starts of the chunks of an eighth of the records, at least one."""
    return range(0, max(CHUNK, records // REFRESHED // CHUNK * CHUNK), CHUNK)


class Store(ABC):
    """A replay buffer, to which batches of records are added, and which is sampled."""

    @abstractmethod
    def open(self, settings: dict[str, Any], capacity: int) -> None:
        """Import the peer, and make a buffer for `capacity` records."""

    @abstractmethod
    def add(self, records: Records) -> None:
        """Add records, stacked on axis 0."""

    @abstractmethod
    def sample(self) -> Any:
        """Sample a batch, in the peer's form."""

    def to_records(self, batch: Any) -> Records:
        """Convert a batch to arrays by field; not timed."""
        return dict(batch)


class Sampling(Store):
    """Candidate for questions of batches drawn from resident records."""

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
        """Replace an eighth of the records, not timed, as for all candidates."""
        for start in refreshed(self.settings["records"]):
            self.add({n: a[start : start + CHUNK] for n, a in self.records.items()})

    def run(self) -> int:
        sample = self.sample
        for _ in range(self.settings["batches"]):
            sample()
        return int(self.settings["batches"])


class Stream:
    """A stream of fresh examples, with the settings for echoing it."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.records = make_records(settings)
        self.images = self.records["image"]
        self.batch = settings["batch"]
        self.factor = settings["factor"]
        self.window = settings["window"]
        self.prepare()

    def prepare(self) -> None:
        """Import the peer, and make the objects that last for all epochs."""

    def fresh_batches(self) -> Iterator[Any]:
        """Yield upstream's batches."""
        for start in range(0, len(self.images), self.batch):
            yield self.images[start : start + self.batch]


class Echoing(Stream, ABC):
    """Candidate for questions of a stream of fresh examples, each served e times."""

    exact = True  # every example is served exactly e times: checked in the warm-up

    @abstractmethod
    def batches(self) -> Iterator[Any]:
        """Return the batches of one epoch, in the peer's form."""

    def repeated(self) -> Iterator[Any]:
        """Yield each example of upstream e times in a row, as views."""
        for image in self.images:
            for _ in range(self.factor):
                yield image

    def warm_up(self) -> None:
        served = []
        # Candidates end an epoch in different ways: batches may be shorter there.
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
        """Return the images of a batch, without copying."""
        return batch["image"]


REPLAY = (
    ("exact use", "no: uniform draws, e times on average"),
    ("shuffled", "uniformly over the window"),
    ("duplicates in a batch", "yes, with replacement"),
)


Records = dict[str, Any]
_BLOCK = 1 << 22  # of noise, laid one after the other


def make_records(settings: Mapping[str, Any]) -> Records:
    """Make arrays `[records, *shape]`; each record carries its index.

    `settings["fields"]` is name -> [shape, dtype]; the index is the first four bytes
    of the field called `settings["key"]`.
    """
    count = settings["records"]
    noise = np.random.default_rng(0).integers(0, 120, _BLOCK, dtype=np.uint8)
    records = {}
    for name, (shape, dtype) in settings["fields"].items():
        array = np.empty((count, *shape), dtype)
        flat = array.reshape(-1).view(np.uint8)
        for start in range(0, flat.size, _BLOCK):
            part = flat[start : start + _BLOCK]
            part[:] = noise[: part.size]
        records[name] = array
    key_view(records[settings["key"]])[:] = np.arange(count)
    return records


def key_view(array: Any) -> Any:
    """Return a view of the indices that the records of `[n, *shape]` carry."""
    width = array.dtype.itemsize * math.prod(array.shape[1:])
    return (
        array.reshape(len(array), -1)
        .view(np.uint8)
        .reshape(-1, width)[:, :4]
        .view(np.int32)[:, 0]
    )


def row(records: Records, index: int) -> Records:
    """Return one example as views."""
    return {name: array[index] for name, array in records.items()}


def check_batch(records: Records, batch: Mapping[str, Any], settings: Any) -> Any:
    """Fail unless each row of a batch is an intact record; return the indices."""
    arrays = {name: np.ascontiguousarray(batch[name]) for name in records}
    indices = key_view(arrays[settings["key"]]).copy()
    if settings["batch"] not in (None, len(indices)):
        raise AssertionError(f"{len(indices)} rows in a batch of {settings['batch']}")
    for name, array in arrays.items():
        expected = records[name]
        if array.dtype != expected.dtype:
            raise AssertionError(f"{name}: {array.dtype}, not {expected.dtype}")
        if not np.array_equal(
            array.reshape(len(array), *expected.shape[1:]), expected[indices]
        ):
            raise AssertionError(f"{name}: a row is no record")
    return indices


def check_uses(
    indices: Iterable[Any], records: int, factor: int, allowed_missing: int = 0
) -> dict[str, float]:
    """Fail unless every example was served `factor` times.

    Returns:
        The mean number of duplicates in a batch.
    """
    counts = np.zeros(records, np.int64)
    twice = []
    for batch in indices:
        np.add.at(counts, batch, 1)
        twice.append(len(batch) - len(np.unique(batch)))
    missing = int(np.abs(counts - factor).sum())
    if missing > allowed_missing:
        raise AssertionError(
            f"{missing} uses too many or too few: {counts.min()} to {counts.max()} "
            f"uses instead of {factor}"
        )
    return {"duplicates_per_batch": float(np.mean(twice))}
