"""Example echoing of a stream: bare copies, NumPy, echobuf.

Upstream has its images in memory. Without `"source"` in the settings it yields them in
batches, as views. With it, it yields examples one by one, as datasets do: an image,
copied afresh, and its label. `"source"` is then the number of images, which repeat;
labels count up.
"""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from echobuf import EchoBuffer, EchoLoader, Field
from echobuf.cli.bench.records import (
    check_uses,
    empty_batch,
    key_view,
    make_records,
)

TIMED = (
    "timed",
    "everything: upstream, copies in and out, the order, hand-over, fill and drain",
)
_OWN = (
    ("exact use", "yes"),
    ("shuffled", "each pass over the window a fresh permutation"),
    ("duplicates in a batch", "none within a pass; a batch may span two"),
    ("batch", "copied; the caller's for good (out=: into the same array)"),
    TIMED,
)


class Stream:
    """`count` fresh examples in memory, of which each is served e times."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.batch, self.window = settings["batch"], settings["window"]
        self.factor = settings["factor"]
        self.one_by_one = "source" in settings
        self.count = int(settings["records"])
        kept = settings.get("source", self.count)
        self.records = make_records({**settings, "records": kept})
        self.images = self.records["image"]
        self.prepare()

    def prepare(self) -> None:
        """Import the peer, and make the objects that last for all epochs."""

    def upstream(self) -> Iterator[Any]:
        """Yield upstream's examples, or its batches."""
        return self.examples() if self.one_by_one else self.fresh_batches()

    def fresh_batches(self) -> Iterator[Any]:
        """Yield batches of images."""
        for start in range(0, self.count, self.batch):
            yield self.images[start : start + self.batch]

    def examples(self) -> Iterator[tuple[Any, int]]:
        """Yield images with their labels."""
        images = itertools.cycle(self.images)
        for label, image in zip(range(self.count), images, strict=False):
            yield image.copy(), label

    def repeated(self) -> Iterator[Any]:
        """Yield each example e times in a row."""
        for example in self.examples() if self.one_by_one else self.images:
            yield from itertools.repeat(example, self.factor)


class Echoing(Stream, ABC):
    """Candidate that serves each fresh example of a stream e times."""

    exact = True  # every example is served exactly e times: checked in the warm-up

    @abstractmethod
    def batches(self) -> Iterator[Any]:
        """Return the batches of one epoch, in the peer's form."""

    def read(self, batch: Any) -> tuple[Any, Any]:
        """Return images and labels of a batch; not timed."""
        if self.one_by_one:
            return np.asarray(batch[0]), np.asarray(batch[1])
        images = np.ascontiguousarray(batch)
        return images, key_view(images)

    def warm_up(self) -> None:
        served = []
        for number, batch in enumerate(self.batches()):
            images, labels = self.read(batch)
            served.append(labels.copy())
            expected = self.images[labels % len(self.images)]
            if number % 64 == 0 and not np.array_equal(images, expected):
                raise AssertionError("an image is not that of its label")
        if self.exact:
            check_uses(served, self.count, self.factor)
        elif not served:
            raise AssertionError("nothing was served")

    def run(self) -> int:
        if self.one_by_one:
            return sum(len(labels) for _, labels in self.batches())
        return sum(len(batch) for batch in self.batches())


class Limit(Stream):
    """`numpy.copyto` of as many rows, one thread, warm memory; upstream not iterated.

    A fresh batch of `batch / factor` rows is copied in, and a batch out: consecutive
    rows both.
    """

    packages = ("numpy",)
    guarantees = (
        ("exact use", "by construction: e copies of what has just come in"),
        ("shuffled", "no"),
        ("duplicates in a batch", "none"),
        ("batch", "copied into the same arrays each time"),
        ("timed", "the copies alone, not upstream"),
    )

    def prepare(self) -> None:
        rings = empty_batch(self.records, self.window)
        batches = empty_batch(self.records, self.batch)
        self.arrays = [
            (array, rings[name], batches[name]) for name, array in self.records.items()
        ]

    def warm_up(self) -> None:
        self.run()

    def run(self) -> int:
        fresh, served = self.batch // self.factor, 0
        for start in range(0, self.count, fresh):
            first = start % len(self.images)
            into, out = start % self.window, served % self.window
            for source, ring, batch in self.arrays:
                np.copyto(ring[into : into + fresh], source[first : first + fresh])
                np.copyto(batch, ring[out : out + self.batch])
            served += self.batch
        return served


class Ring(Echoing):
    """A NumPy ring written by hand: a pass over e segments for each new one.

    Examples go straight into their slots; batches are taken by index.
    """

    packages = ("numpy",)
    guarantees = (
        *_OWN[:2],
        ("duplicates in a batch", "none"),
        ("batch", "copied; the caller's"),
        TIMED,
    )

    def prepare(self) -> None:
        self.ring = empty_batch(self.records, self.window)["image"]
        self.labels = np.zeros(self.window, np.int64)
        self.rng = np.random.default_rng(0)

    def batches(self) -> Iterator[Any]:
        size = self.window // self.factor
        slots = np.arange(self.window).reshape(self.factor, size)
        segments = self.count // size
        upstream = self.examples() if self.one_by_one else None
        for number in range(segments + self.factor - 1):
            if number < segments:
                self._fill(number, size, upstream)
            live = range(max(0, number - self.factor + 1), min(number + 1, segments))
            order = slots[[segment % self.factor for segment in live]].ravel()
            self.rng.shuffle(order)
            for first in range(0, len(order), self.batch):
                index = order[first : first + self.batch]
                images = self.ring.take(index, axis=0, mode="clip")
                yield (images, self.labels.take(index)) if upstream else images

    def _fill(
        self, segment: int, size: int, upstream: Iterator[tuple[Any, int]] | None
    ) -> None:
        start = segment % self.factor * size
        if upstream is None:
            fresh = self.images[segment * size : (segment + 1) * size]
            np.copyto(self.ring[start : start + size], fresh)
        else:
            for slot in range(start, start + size):
                self.ring[slot], self.labels[slot] = next(upstream)


class SameThread(Echoing):
    """Puts of echobuf on the thread that draws, whenever no batch is ready."""

    packages = ("echobuf", "numpy", "optree")
    guarantees = _OWN

    def prepare(self) -> None:
        image = Field(self.images.shape[1:], self.images.dtype)
        self.buffer = EchoBuffer(
            (image, Field((), np.int64)) if self.one_by_one else image,
            batch_size=self.batch,
            window=self.window,
            factor=self.factor,
        )
        self.put = self.buffer.put if self.one_by_one else self.buffer.put_batch
        self.out = None
        if self.settings.get("out"):
            self.out = empty_batch(self.records, self.batch)["image"]

    def batches(self) -> Iterator[Any]:
        put, buffer = self.put, self.buffer
        buffer.reset()
        for fresh in self.upstream():
            put(fresh)
            while buffer.ready():
                yield buffer.next_batch(self.out)
        buffer.close()
        yield from self.drawn()

    def drawn(self) -> Iterator[Any]:
        """Draw until the epoch ends."""
        while True:
            try:
                yield self.buffer.next_batch(self.out)
            except StopIteration:
                return


class Threaded(SameThread):
    """Puts of echobuf on a background thread."""

    def batches(self) -> Iterator[Any]:
        self.buffer.reset()
        producer = threading.Thread(target=self._produce)
        producer.start()
        yield from self.drawn()
        producer.join()

    def _produce(self) -> None:
        for fresh in self.upstream():
            self.put(fresh)
        self.buffer.close()


class Loader(Echoing):
    """`EchoLoader` around upstream, which it iterates on a thread."""

    packages = ("echobuf", "numpy", "optree")
    guarantees = _OWN

    def prepare(self) -> None:
        self.loader = EchoLoader(
            _Epochs(self),
            batched=not self.one_by_one,
            batch_size=self.batch,
            window=self.window,
            factor=self.factor,
            prefetch=self.settings.get("prefetch", 0),
        )

    def batches(self) -> Iterator[Any]:
        return iter(self.loader)


class _Epochs:
    """Iterable of a stream's upstream, from its start each time."""

    def __init__(self, candidate: Echoing) -> None:
        self._candidate = candidate

    def __iter__(self) -> Iterator[Any]:
        return self._candidate.upstream()
