"""Batches of token sequences that differ in length, drawn from memory: packed, padded.

Lengths are log-normal, cut at `longest`; the first token of a sequence is its number. A
packed batch is the values of all its sequences, one behind another, with where each
begins; a padded one is a rectangle. Each peer holds the sequences in the form that it
documents, and makes a new permutation of them for each pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

GUARANTEES = (
    ("exact use", "once a pass, by the permutation"),
    ("shuffled", "uniformly, over the window"),
    ("duplicates in a batch", "none"),
    ("batch", "copied; the caller's"),
    ("timed", "the batch, and the order of each pass"),
)
EIGHTH = 8


class Sequences:
    """The sequences that all candidates draw from: `values`, from `offsets` to next."""

    def __init__(self, settings: dict[str, Any]) -> None:
        count, sigma = settings["records"], settings["sigma"]
        rng = np.random.default_rng(0)
        middle = np.log(settings["mean"]) - sigma**2 / 2
        lengths = rng.lognormal(middle, sigma, count).astype(np.int64)
        self.offsets = np.zeros(count + 1, np.int64)
        np.cumsum(np.clip(lengths, 1, settings["longest"]), out=self.offsets[1:])
        self.values = rng.integers(1, 32_000, self.offsets[-1], dtype=np.int32)
        self.values[self.offsets[:-1]] = np.arange(count)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Any:
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def check(self, rows: list[Any], batch: int) -> set[int]:
        """Fail unless the rows are `batch` sequences; return their numbers."""
        numbers = {int(row[0]) for row in rows}
        if len(rows) != batch or len(numbers) != batch:
            raise AssertionError(f"{len(rows)} rows of {len(numbers)} sequences")
        for row in rows:
            if not np.array_equal(row, self[int(row[0])]):
                raise AssertionError(f"sequence {row[0]} is another one")
        return numbers


class Copy:
    """Copy of consecutive sequences, which lie one behind another, to a warm target."""

    packages: tuple[str, ...] = ("numpy",)
    guarantees = (
        ("exact use", "-"),
        ("shuffled", "no"),
        ("duplicates in a batch", "none"),
        ("batch", "copied into the same array each time"),
        ("timed", "the copy alone"),
    )

    def __init__(self, settings: dict[str, Any]) -> None:
        self.batch, self.batches = settings["batch"], settings["batches"]
        self.sequences = Sequences(settings)
        self.starts = self.sequences.offsets[:: self.batch].tolist()
        self.out = np.zeros(int(np.diff(self.starts).max()), np.int32)
        self.next = 0
        self.copy = self.find_copy()

    def find_copy(self) -> Any:
        return np.copyto

    def begin(self) -> None:
        """Rewrite an eighth of the sequences, not timed, as for all candidates."""
        part = self.sequences.values[: len(self.sequences.values) // EIGHTH]
        part[:] = part.copy()

    def run(self) -> int:
        values, out, starts, copy = (
            self.sequences.values,
            self.out,
            self.starts,
            self.copy,
        )
        for _ in range(self.batches):
            first, end = starts[self.next], starts[self.next + 1]
            copy(out[: end - first], values[first:end])
            self.next = (self.next + 1) % (len(starts) - 1)
        return int(self.batches)


class StreamingCopy(Copy):
    """The same past the caches, as the bandwidth of the memory is measured."""

    packages = ("echobuf", "numpy")

    def find_copy(self) -> Any:
        from echobuf._core import streaming_copy

        return streaming_copy


class Echobuf:
    """`next_batch()` from a full window, whose oldest eighth is put again at times."""

    packages = ("echobuf", "numpy", "optree")
    guarantees = (
        ("exact use", "yes"),
        ("shuffled", "each pass over the window a fresh permutation"),
        ("duplicates in a batch", "none within a pass; a batch may span two"),
        ("batch", "copied; the caller's for good"),
        ("timed", "the draws, with the order of the passes; putting is not"),
    )

    def __init__(self, settings: dict[str, Any]) -> None:
        from echobuf import EchoBuffer, Field

        self.settings = settings
        self.batch, self.batches = settings["batch"], settings["batches"]
        self.sequences = sequences = Sequences(settings)
        self.part = len(sequences) // EIGHTH
        if len(sequences) % EIGHTH or self.batches > len(sequences) // self.batch:
            raise ValueError("`records` are no eight parts, or less than `batches`")
        # A share has room for each eighth, so that segments end by their records.
        sizes = 4 * np.diff(sequences.offsets[:: self.part])
        self.buffer = EchoBuffer(
            Field((None,), np.int32),
            batch_size=self.batch,
            window=len(sequences),
            factor=EIGHTH,
            payload_bytes=int(EIGHTH * sizes.max()),
            ragged=settings["form"],
        )
        self.next_part = 0
        self.sure = 0  # batches that can be drawn before more must be put

    def put_part(self) -> None:
        while self.buffer.ready():
            self.buffer.next_batch()
        first = self.next_part * self.part
        self.next_part = (self.next_part + 1) % EIGHTH
        offsets = self.sequences.offsets[first : first + self.part + 1]
        values = self.sequences.values[offsets[0] : offsets[-1]]
        self.buffer.put_batch((values, offsets - offsets[0]))
        self.sure = EIGHTH * self.part // self.batch

    def warm_up(self) -> None:
        """Check the batches of a pass over a full window."""
        for _ in range(EIGHTH):
            self.put_part()
        numbers: set[int] = set()
        for _ in range(self.sure):
            rows = self.buffer.next_batch().to_list()
            numbers |= self.sequences.check(rows, self.batch)
        assert len(numbers) == len(self.sequences)
        self.sure = 0

    def begin(self) -> None:
        if self.sure < self.batches:
            self.put_part()
        self.sure -= self.batches

    def run(self) -> int:
        next_batch = self.buffer.next_batch
        for _ in range(self.batches):
            next_batch()
        return int(self.batches)


class Peer(ABC):
    """A peer that draws batches of sequences."""

    packages: tuple[str, ...] = ("numpy",)
    guarantees = GUARANTEES

    def __init__(self, settings: dict[str, Any]) -> None:
        self.batch, self.batches = settings["batch"], settings["batches"]
        self.sequences = Sequences(settings)
        self.open()

    @abstractmethod
    def open(self) -> None:
        """Import the peer, and store the sequences."""

    @abstractmethod
    def sample(self) -> Any:
        """Return a batch, all of whose values and offsets are there."""

    @abstractmethod
    def to_list(self, batch: Any) -> list[Any]:
        """Return the arrays of the sequences of a batch."""

    def warm_up(self) -> None:
        """Check the batches of a pass."""
        numbers: set[int] = set()
        for _ in range(len(self.sequences) // self.batch):
            rows = self.to_list(self.sample())
            numbers |= self.sequences.check(rows, self.batch)
        assert len(numbers) == len(self.sequences) // self.batch * self.batch

    def run(self) -> int:
        for _ in range(self.batches):
            self.sample()
        return int(self.batches)


class Taker(Peer):
    """A peer that takes sequences by their numbers, which come from a permutation."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.rng = np.random.default_rng(1)
        self.order = np.empty(0, np.int64)

    @abstractmethod
    def take(self, index: Any) -> Any:
        """Return the batch of these numbers."""

    def sample(self) -> Any:
        if len(self.order) < self.batch:
            self.order = self.rng.permutation(len(self.sequences))
        index, self.order = self.order[: self.batch], self.order[self.batch :]
        return self.take(index)


class ListOfArrays(Taker):
    """A list of arrays, each in memory of its own."""

    def open(self) -> None:
        self.rows = [self.sequences[i].copy() for i in range(len(self.sequences))]

    def begin(self) -> None:
        """Replace an eighth of the sequences, not timed, as for all candidates."""
        for i in range(len(self.rows) // EIGHTH):
            self.rows[i] = self.sequences[i].copy()

    def chosen(self, index: Any) -> list[Any]:
        return [self.rows[i] for i in index.tolist()]


class Concatenate(ListOfArrays):
    """`numpy.concatenate`, and a sum of the lengths."""

    def take(self, index: Any) -> Any:
        rows = self.chosen(index)
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        return np.concatenate(rows), offsets

    def to_list(self, batch: Any) -> list[Any]:
        values, offsets = batch
        return np.split(values, offsets[1:-1])


class FullOfZeros(ListOfArrays):
    """`numpy.zeros`, and an assignment for each sequence."""

    def take(self, index: Any) -> Any:
        rows = self.chosen(index)
        lengths = np.array([len(row) for row in rows])
        values = np.zeros((len(rows), lengths.max()), np.int32)
        for i, row in enumerate(rows):
            values[i, : len(row)] = row
        return values, lengths

    def to_list(self, batch: Any) -> list[Any]:
        return [row[:n] for row, n in zip(*batch, strict=True)]


class ArrowTake(Taker):
    """`take` of an Arrow array of lists; its parts are NumPy's, without a copy."""

    packages = ("pyarrow", "numpy")

    def open(self) -> None:
        import pyarrow as pa

        self.array = pa.array
        offsets = pa.array(self.sequences.offsets.astype(np.int32))
        self.rows = pa.ListArray.from_arrays(offsets, pa.array(self.sequences.values))

    def take(self, index: Any) -> Any:
        taken = self.rows.take(self.array(index))
        return taken.flatten().to_numpy(), taken.offsets.to_numpy()

    def to_list(self, batch: Any) -> list[Any]:
        values, offsets = batch
        return np.split(values, offsets[1:-1])


class Datasets(Taker):
    """A Hugging Face dataset with the format "numpy", whose arrays are put together."""

    packages = ("datasets", "pyarrow", "numpy")
    form = "numpy"

    def open(self) -> None:
        import datasets
        import pyarrow as pa

        offsets = pa.array(self.sequences.offsets.astype(np.int32))
        rows = pa.ListArray.from_arrays(offsets, pa.array(self.sequences.values))
        table = pa.table({"input_ids": rows})
        self.rows = datasets.Dataset(table).with_format(self.form)

    def take(self, index: Any) -> Any:
        rows = self.rows[index]["input_ids"]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        return np.concatenate(rows), offsets

    def to_list(self, batch: Any) -> list[Any]:
        values, offsets = batch
        return np.split(values, offsets[1:-1])


class ArrowDatasets(Datasets):
    """The same with the format "arrow", whose chunks, one a row, are combined."""

    form = "arrow"

    def take(self, index: Any) -> Any:
        taken = self.rows[index]["input_ids"].combine_chunks()
        return taken.flatten().to_numpy(), taken.offsets.to_numpy()
