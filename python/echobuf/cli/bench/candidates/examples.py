"""A stream of examples as datasets yield them: one by one, an array and a number."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from echobuf import EchoBuffer, EchoLoader, Field
from echobuf.cli.bench.candidates.base import Echoing, Stream, check_uses
from echobuf.cli.bench.candidates.buffers import GUARANTEES

TIMED = (
    "timed",
    "everything: upstream, copies in and out, the order, hand-over, fill and drain",
)


class Examples(Stream):
    """Stream of `(image, label)`: the image a new copy, the label an int.

    `"source"` in the settings is the number of images in memory, which repeat; labels
    count up.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__({**settings, "records": settings["source"]})
        self.count = int(settings["records"])

    def examples(self) -> Iterator[tuple[Any, int]]:
        """Yield upstream's examples."""
        images = itertools.cycle(self.images)
        for label, image in zip(range(self.count), images, strict=False):
            yield image.copy(), label


class EchoingExamples(Examples, Echoing):
    """Candidate that serves each example of such a stream e times."""

    def read(self, batch: Any) -> tuple[Any, Any]:
        """Return images and labels of a batch; not timed."""
        images, labels = batch
        return np.asarray(images), np.asarray(labels)

    def warm_up(self) -> None:
        served = []
        for number, batch in enumerate(self.batches()):
            images, labels = self.read(batch)
            served.append(labels.copy())
            if number % 64 == 0 and not np.array_equal(
                images, self.images[labels % len(self.images)]
            ):
                raise AssertionError("an image is not that of its label")
        if self.exact:
            check_uses(served, self.count, self.factor)
        elif not served:
            raise AssertionError("nothing was served")

    def run(self) -> int:
        return sum(len(batch[1]) for batch in self.batches())

    def repeated(self) -> Iterator[Any]:
        """Yield each example of upstream e times in a row."""
        for example in self.examples():
            for _ in range(self.factor):
                yield example


class Limit(Examples):
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
        self.rings = {
            name: np.zeros((self.window, *array.shape[1:]), array.dtype)
            for name, array in self.records.items()
        }
        self.out = {
            name: np.zeros((self.batch, *array.shape[1:]), array.dtype)
            for name, array in self.records.items()
        }

    def warm_up(self) -> None:
        self.run()

    def run(self) -> int:
        fresh = self.batch // self.factor
        served = 0
        for number, start in enumerate(range(0, self.count, fresh)):
            first = start % len(self.images)
            into = start % self.window
            out = number * self.batch % self.window
            for name, ring in self.rings.items():
                source = self.records[name]
                np.copyto(ring[into : into + fresh], source[first : first + fresh])
                np.copyto(self.out[name], ring[out : out + self.batch])
            served += self.batch
        return served


class NumpyRing(EchoingExamples):
    """A ring written by hand: e segments, a pass over the window for each new one.

    An example goes straight into its slot; batches are taken by index.
    """

    packages = ("numpy",)
    guarantees = (
        ("exact use", "yes"),
        ("shuffled", "each pass over the window a fresh permutation"),
        ("duplicates in a batch", "none"),
        ("batch", "copied; the caller's"),
        TIMED,
    )

    def prepare(self) -> None:
        self.ring = np.zeros((self.window, *self.images.shape[1:]), np.uint8)
        self.labels = np.zeros(self.window, np.int64)
        self.rng = np.random.default_rng(0)

    def batches(self) -> Iterator[Any]:
        size = self.window // self.factor
        slots = np.arange(self.window).reshape(self.factor, size)
        upstream = self.examples()
        segments = self.count // size
        for number in range(segments + self.factor - 1):
            if number < segments:
                start = number % self.factor * size
                for slot in range(start, start + size):
                    self.ring[slot], self.labels[slot] = next(upstream)
            live = range(max(0, number - self.factor + 1), min(number + 1, segments))
            order = slots[[segment % self.factor for segment in live]].ravel()
            self.rng.shuffle(order)
            for first in range(0, len(order), self.batch):
                index = order[first : first + self.batch]
                yield self.ring.take(index, axis=0), self.labels.take(index)


class Loader(EchoingExamples):
    """`EchoLoader` around the generator, which it iterates on a thread."""

    packages = ("echobuf", "numpy", "optree")
    guarantees = (*GUARANTEES, ("batch", "copied; the caller's"), TIMED)

    def prepare(self) -> None:
        self.loader = EchoLoader(
            _Upstream(self),
            batch_size=self.batch,
            window=self.window,
            factor=self.factor,
            prefetch=self.settings.get("prefetch", 0),
        )

    def batches(self) -> Iterator[Any]:
        return iter(self.loader)


class _Upstream:
    def __init__(self, stream: Examples) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[Any]:
        return self._stream.examples()


class SameThread(EchoingExamples):
    """Echoing on one thread: `put` of each example, and a batch whenever ready."""

    packages = ("echobuf", "numpy", "optree")
    guarantees = (*GUARANTEES, ("batch", "copied; the caller's"), TIMED)

    def prepare(self) -> None:
        self.buffer = EchoBuffer(
            (Field(self.images.shape[1:], self.images.dtype), Field((), np.int64)),
            batch_size=self.batch,
            window=self.window,
            factor=self.factor,
        )

    def batches(self) -> Iterator[Any]:
        buffer = self.buffer
        buffer.reset()
        for example in self.examples():
            buffer.put(example)
            while buffer.ready():
                yield buffer.next_batch()
        buffer.close()
        yield from buffer
