"""Batches drawn from resident records: plain copies, NumPy, echobuf."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from echobuf import EchoBuffer, Field
from echobuf._core import streaming_copy
from echobuf.cli.bench.records import (
    Records,
    check_batch,
    check_uses,
    chunks,
    empty_batch,
    make_records,
)

_PARTS = 8  # of the records, one of which is replaced between two runs
_ONCE = ("duplicates in a batch", "none")
_REUSED = ("batch", "copied into the same arrays each time")
_PASSES = ("shuffled", "each pass over the window a fresh permutation")


class Sampling(ABC):
    """A store of records, to which batches are added and from which they are drawn."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.records = make_records(settings)
        self.open(settings, settings["records"])
        for chunk in chunks(self.records, settings["records"]):
            self.add(chunk)

    @abstractmethod
    def open(self, settings: dict[str, Any], capacity: int) -> None:
        """Import the peer, and make a store for `capacity` records."""

    @abstractmethod
    def add(self, records: Records) -> None:
        """Add records, stacked on axis 0."""

    @abstractmethod
    def sample(self) -> Any:
        """Draw a batch, in the peer's form."""

    def to_records(self, batch: Any) -> Records:
        """Convert a batch to arrays by field; not timed."""
        return dict(batch)

    def warm_up(self) -> None:
        for _ in range(3):
            check_batch(self.records, self.to_records(self.sample()), self.settings)

    def begin(self) -> None:
        """Replace an eighth of the records, not timed, as for all candidates."""
        for chunk in chunks(self.records, self.settings["records"] // _PARTS):
            self.add(chunk)

    def run(self) -> int:
        sample = self.sample
        for _ in range(self.settings["batches"]):
            sample()
        return int(self.settings["batches"])


class Copy(Sampling):
    """Copies of consecutive records to a warm target; one thread, `numpy.copyto`."""

    packages: tuple[str, ...] = ("numpy",)
    guarantees: tuple[tuple[str, str], ...] = (
        ("exact use", "-"),
        ("shuffled", "no"),
        _ONCE,
        _REUSED,
        ("timed", "the copy alone"),
    )

    def open(self, settings: dict[str, Any], capacity: int) -> None:
        self.next_rows = self.rows(capacity, settings["batch"]).__next__
        self.out = empty_batch(self.records, settings["batch"])

    def add(self, records: Records) -> None:
        for array in records.values():  # the store are the records themselves
            array[:] = array.copy()

    def rows(self, records: int, batch: int) -> Iterator[Any]:
        """Yield the rows of one batch after the other, without end."""
        starts = range(0, records - batch + 1, batch)
        return itertools.cycle([slice(start, start + batch) for start in starts])

    def sample(self) -> Records:
        rows, out = self.next_rows(), self.out
        for name, array in self.records.items():
            self.copy(out[name], array, rows)
        return out

    def copy(self, out: Any, array: Any, rows: Any) -> None:
        np.copyto(out, array[rows])


class StreamingCopy(Copy):
    """The same past the caches, as echobuf copies large batches."""

    packages = ("echobuf", "numpy")

    def copy(self, out: Any, array: Any, rows: Any) -> None:
        streaming_copy(out, array[rows])


class Take(Copy):
    """`numpy.take(out=)` with a permutation of the window for each pass."""

    guarantees = (
        ("exact use", "once a pass, by the permutation"),
        ("shuffled", "uniformly, over the window"),
        _ONCE,
        _REUSED,
        ("timed", "the copy, and the order of each pass unless given"),
    )

    def open(self, settings: dict[str, Any], capacity: int) -> None:
        super().open(settings, capacity)
        self.rng = np.random.default_rng(0)

    def rows(self, records: int, batch: int) -> Iterator[Any]:
        given: Any = ()
        while True:
            if not given or not self.settings.get("order_given"):
                order = self.permutation(records)[: records // batch * batch]
                given = self.split(order, batch)
            yield from given

    def permutation(self, records: int) -> Any:
        """Return the order of a pass."""
        return self.rng.permutation(records)

    def split(self, order: Any, batch: int) -> Any:
        """Return the parts of an order, each as long as a batch."""
        return np.split(order, len(order) // batch)

    def copy(self, out: Any, array: Any, rows: Any) -> None:
        np.take(array, rows, axis=0, out=out, mode="clip")


class Ring(Take):
    """`numpy.take` into new arrays."""

    guarantees = (
        ("exact use", "yes"),
        _PASSES,
        _ONCE,
        ("batch", "copied; the caller's"),
        ("timed", "the copy and the order"),
    )

    def sample(self) -> Records:
        rows = self.next_rows()
        return {n: a.take(rows, 0, mode="clip") for n, a in self.records.items()}


class Draw:
    """`next_batch()` or, with `"out": true`, `next_batch(out=)`, from a full window.

    A window, unlike a replay buffer, is not drawn from without end: when its passes are
    drawn, fresh records replace its oldest eighth, outside the timed part.
    """

    packages = ("echobuf", "numpy", "optree")
    guarantees = (
        ("exact use", "yes"),
        _PASSES,
        ("duplicates in a batch", "none within a pass; a batch may span two"),
        ("batch", "copied; the caller's for good (out=: into the same arrays)"),
        ("timed", "the draws, with the order of the passes; putting is not"),
    )

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.records = make_records(settings)
        self.batches, self.window = settings["batches"], settings["records"]
        if self.batches > self.window // settings["batch"]:
            raise ValueError(f"{self.batches} batches are more than one pass")
        if self.window % _PARTS:
            raise ValueError(f"{self.window} records are not {_PARTS} equal segments")
        self.out = None
        if settings.get("out"):
            self.out = empty_batch(self.records, settings["batch"])
        self.buffer = EchoBuffer(
            {name: Field(a.shape[1:], a.dtype) for name, a in self.records.items()},
            batch_size=settings["batch"],
            window=self.window,
            factor=_PARTS,
        )
        self.segments = itertools.cycle(range(0, self.window, self.window // _PARTS))
        self.sure = 0  # batches that can be drawn before more must be put

    def warm_up(self) -> None:
        """Draw an epoch and check it, then fill the window."""
        self.buffer.put_batch(self.records)
        self.buffer.close()
        settings = {**self.settings, "batch": None}
        indices = [check_batch(self.records, b, settings) for b in self.buffer]
        check_uses(indices, self.window, _PARTS)
        self.buffer.reset()
        for _ in range(_PARTS):
            self.put_segment()

    def put_segment(self) -> None:
        """Draw earlier passes to their end, then put fresh records for one more."""
        while self.buffer.ready():
            self.buffer.next_batch(self.out)
        start = next(self.segments)
        stop = start + self.window // _PARTS
        self.buffer.put_batch({n: a[start:stop] for n, a in self.records.items()})
        self.sure = self.window // self.settings["batch"]

    def begin(self) -> None:
        if self.sure < self.batches:
            self.put_segment()
        self.sure -= self.batches

    def run(self) -> int:
        next_batch, out = self.buffer.next_batch, self.out
        for _ in range(self.batches):
            next_batch(out)
        return int(self.batches)
