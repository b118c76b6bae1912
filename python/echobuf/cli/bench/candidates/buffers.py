"""Candidates of echobuf: batches drawn from a full window, and an echoed stream."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from echobuf import EchoBuffer, EchoLoader, Field
from echobuf.cli.bench.candidates.base import (
    Echoing,
    check_batch,
    check_uses,
    make_records,
)

GUARANTEES = (
    ("exact use", "yes"),
    ("shuffled", "each pass over the window a fresh permutation"),
    ("duplicates in a batch", "none within a pass; a batch may span two"),
)
FACTOR = 8


class Draw:
    """`next_batch()` or, with `"out": true`, `next_batch(out=)`, from a full window.

    A window, unlike a replay buffer, is not drawn from without end: when its passes are
    drawn, fresh records replace its oldest eighth, outside the timed part.
    """

    packages = ("echobuf", "numpy", "optree")
    guarantees = (
        *GUARANTEES,
        ("batch", "copied; the caller's for good (out=: into the same arrays)"),
        ("timed", "the draws, with the order of the passes; putting is not"),
    )

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.records = make_records(settings)
        self.batches = settings["batches"]
        window = settings["records"]
        if self.batches > window // settings["batch"]:
            raise ValueError(f"{self.batches} batches are more than one pass")
        if window % FACTOR:
            raise ValueError(f"{window} records are not {FACTOR} equal segments")
        self.out = None
        if settings.get("out"):
            self.out = {
                name: np.zeros((settings["batch"], *array.shape[1:]), array.dtype)
                for name, array in self.records.items()
            }
        self.buffer = EchoBuffer(
            {name: Field(a.shape[1:], a.dtype) for name, a in self.records.items()},
            batch_size=settings["batch"],
            window=window,
            factor=FACTOR,
        )
        self.segment = window // FACTOR
        self.next_segment = 0
        self.sure = 0  # batches that can be drawn before more must be put

    def warm_up(self) -> None:
        """Draw an epoch and check it, then fill the window."""
        self.buffer.put_batch(self.records)
        self.buffer.close()
        settings = {**self.settings, "batch": None}
        indices = [check_batch(self.records, b, settings) for b in self.buffer]
        check_uses(indices, self.settings["records"], FACTOR)
        self.buffer.reset()
        for _ in range(FACTOR):
            self.put_segment()

    def put_segment(self) -> None:
        """Draw earlier passes to their end, then put fresh records for one more."""
        while self.buffer.ready():
            self.buffer.next_batch(self.out)
        start = self.next_segment * self.segment
        self.next_segment = (self.next_segment + 1) % FACTOR
        stop = start + self.segment
        self.buffer.put_batch({n: a[start:stop] for n, a in self.records.items()})
        self.sure = FACTOR * self.segment // self.settings["batch"]

    def begin(self) -> None:
        if self.sure < self.batches:
            self.put_segment()
        self.sure -= self.batches

    def run(self) -> int:
        next_batch, out = self.buffer.next_batch, self.out
        if out is None:
            for _ in range(self.batches):
                next_batch()
        else:
            for _ in range(self.batches):
                next_batch(out)
        return int(self.batches)


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
    """Echoing with `put_batch` on a background thread."""

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
    """Echoing with `put_batch` on the same thread, whenever no batch is ready."""

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
    """Echoing with an `EchoLoader` over batches, which it iterates on a thread."""

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
