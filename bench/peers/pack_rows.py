"""Token sequences packed into rows of one length: who packs them, and how.

Lengths are log-normal. Each candidate reads the form that suits it best: one array of
tokens with offsets for echobuf, a list of arrays for packers in Python, a dataset of
Arrow for TRL. Examples longer than a row are cut beforehand.
"""

from __future__ import annotations

import bisect
import importlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np


def make_lengths(settings: dict[str, Any]) -> np.ndarray:
    """Return the lengths of examples: log-normal, from 1 to that of a row."""
    rng = np.random.default_rng(settings.get("seed", 0))
    sigma = settings["sigma"]
    lengths = rng.lognormal(
        np.log(settings["mean"]) - sigma**2 / 2, sigma, settings["examples"]
    )
    return np.clip(lengths.astype(np.int64), 1, settings["pack_to"])


class _Packing(ABC):
    packages: tuple[str, ...] = ("numpy",)

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.length: int = settings["pack_to"]
        self.lengths = make_lengths(settings)
        self.offsets = np.zeros(len(self.lengths) + 1, np.int64)
        np.cumsum(self.lengths, out=self.offsets[1:])
        self.values = np.arange(self.offsets[-1], dtype=np.int32)
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Import the peer, and make what lasts for all rounds."""

    @abstractmethod
    def used(self) -> Iterator[Any]:
        """Pack all examples; yield the places taken in each row, in arrays."""

    def warm_up(self) -> None:
        """Check that no token is lost."""
        assert self.waste()[1] == self.offsets[-1]

    def run(self) -> int:
        return sum(len(lengths) for lengths in self.used())

    def waste(self) -> tuple[float, int]:
        """Return the share of places that are empty, and the number of others."""
        lengths = np.concatenate([np.asarray(each) for each in self.used()])
        assert lengths.max() <= self.length
        taken = int(lengths.sum())
        return 1 - taken / (len(lengths) * self.length), taken


class Echobuf(_Packing):
    """`EchoLoader` with `pack_to`, factor 1."""

    packages = ("echobuf", "numpy", "optree")
    guarantees = (("order", "shuffled"), ("ids", "segments and positions"))

    def prepare(self) -> None:
        from echobuf import EchoLoader, Ragged

        step = 256
        batches = []
        for first in range(0, len(self.lengths), step):
            offsets = self.offsets[first : first + step + 1]
            values = self.values[offsets[0] : offsets[-1]]
            batches.append(Ragged(values, offsets - offsets[0]))

        self.loader = EchoLoader(
            batches,
            batched=True,
            batch_size=self.settings["rows"],
            window=self.settings["window"],
            factor=1,
            payload_bytes=2 * self.settings["window"] * self.settings["mean"] * 4,
            pack_to=self.length,
            seed=self.settings.get("seed", 0),
        )

    def used(self) -> Iterator[Any]:
        for batch in self.loader:
            yield batch.lengths


class Python(_Packing):
    """A packer in Python, which fills the first of `open_rows` rows that has room.

    With one open row it is the usual loop: an example that does not fit closes the row.
    """

    guarantees = (("order", "as read"), ("ids", "segments and positions"))

    def prepare(self) -> None:
        bounds = self.offsets.tolist()
        self.examples = [
            self.values[first:end] for first, end in itertools.pairwise(bounds)
        ]

    def rows(self) -> Iterator[list[Any]]:
        """Yield the examples of each row."""
        most, length = self.settings.get("open_rows", 1), self.length
        rows: list[list[Any]] = []
        room: list[int] = []
        for example in self.examples:
            size = len(example)
            at = next((n for n, left in enumerate(room) if size <= left), -1)
            if at < 0:
                if len(rows) == most:
                    yield rows.pop(0)
                    room.pop(0)
                rows.append([])
                room.append(length)
            rows[at].append(example)
            room[at] -= size
        yield from rows

    def used(self) -> Iterator[Any]:
        size, length = self.settings["rows"], self.length
        rows = self.rows()
        while True:
            values = np.zeros((size, length), np.int32)
            ids, positions = np.zeros_like(values), np.zeros_like(values)
            lengths = []
            for row, examples in zip(range(size), rows, strict=False):
                at = 0
                for number, example in enumerate(examples, 1):
                    end = at + len(example)
                    values[row, at:end] = example
                    ids[row, at:end] = number
                    positions[row, at:end] = np.arange(len(example))
                    at = end
                lengths.append(at)
            if not lengths:
                return
            yield lengths


class TRL(_Packing):
    """`trl.pack_dataset` with its defaults: best fit decreasing of each 1,000 examples.

    Rows are lists of Arrow, without padding and without ids of segments.
    """

    packages = ("trl", "transformers", "datasets", "pyarrow")
    guarantees = (("order", "by length"), ("ids", "lengths of examples"))
    strategy = "bfd"

    def prepare(self) -> None:
        for package in self.packages:  # of which trl would import some too late
            importlib.import_module(package)
        import datasets
        import pyarrow as pa
        from trl import pack_dataset

        datasets.disable_progress_bars()
        self.pack = pack_dataset
        column = pa.LargeListArray.from_arrays(self.offsets, self.values)
        self.dataset = datasets.Dataset(pa.table({"input_ids": column}))

    def used(self) -> Iterator[Any]:
        kwargs = {"keep_in_memory": True, "load_from_cache_file": False}
        packed = self.pack(self.dataset, self.length, self.strategy, kwargs)
        for column in packed.data.column("input_ids").chunks:
            yield column.value_lengths().to_numpy()


class TRLWrapped(TRL):
    """`trl.pack_dataset` that cuts examples where rows end, and so fills all rows."""

    guarantees = (("order", "as read; examples are cut"), ("ids", "none"))
    strategy = "wrapped"


class Offline(_Packing):
    """Best fit decreasing over all examples: a bound, for which no row is made."""

    def prepare(self) -> None:
        pass

    def used(self) -> Iterator[Any]:
        rooms: list[int] = []
        for length in np.sort(self.lengths)[::-1].tolist():
            at = bisect.bisect_left(rooms, length)
            left = (rooms.pop(at) if at < len(rooms) else self.length) - length
            bisect.insort(rooms, left)
        yield self.length - np.array(rooms)
