"""echobuf as a candidate: a stream of fresh examples, each served e times."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from echobuf import EchoBuffer, EchoLoader, Field
from echobuf.cli.bench.candidates.base import Echoing
from echobuf.cli.bench.candidates.draw import GUARANTEES

COPIED = (
    *GUARANTEES,
    ("batch", "copied; the caller's for good (out=: into the same array)"),
    ("timed", "everything: copies in and out, the order, hand-over, fill and drain"),
)


class _Buffered(Echoing):
    packages = ("echobuf", "numpy", "optree")
    guarantees = COPIED

    def prepare(self) -> None:
        self.buffer = EchoBuffer(
            Field(self.images.shape[1:], self.images.dtype),
            batch_size=self.batch,
            window=self.window,
            factor=self.factor,
        )
        self.out = None
        if self.settings.get("out"):
            self.out = np.zeros((self.batch, *self.images.shape[1:]), np.uint8)


class Threaded(_Buffered):
    """`put_batch` from a thread."""

    def batches(self) -> Iterator[Any]:
        self.buffer.reset()
        producer = threading.Thread(target=self._produce)
        producer.start()
        while True:
            try:
                yield self.buffer.next_batch(self.out)
            except StopIteration:
                break
        producer.join()

    def _produce(self) -> None:
        for fresh in self.fresh_batches():
            self.buffer.put_batch(fresh)
        self.buffer.close()


class SameThread(_Buffered):
    """`put_batch` whenever no batch is ready."""

    def batches(self) -> Iterator[Any]:
        buffer = self.buffer
        buffer.reset()
        upstream = self.fresh_batches()
        while True:
            while not buffer.ready():
                fresh = next(upstream, None)
                if fresh is None:
                    buffer.close()
                    break
                buffer.put_batch(fresh)
            try:
                yield buffer.next_batch(self.out)
            except StopIteration:
                return


class Loader(Echoing):
    """`EchoLoader` around batches, which it iterates on a thread."""

    packages = ("echobuf", "numpy", "optree")
    guarantees = COPIED

    def prepare(self) -> None:
        self.loader = EchoLoader(
            list(self.fresh_batches()),
            batched=True,
            batch_size=self.batch,
            window=self.window,
            factor=self.factor,
        )

    def batches(self) -> Iterator[Any]:
        return iter(self.loader)
