"""Token sequences packed into rows of one length: who packs them, and how.

Lengths are log-normal. Each candidate is given the form that it reads fastest: one array
of tokens with offsets for echobuf, a list of arrays for packers in Python, a dataset of
Arrow for TRL. What is longer than a row is cut.
"""

from __future__ import annotations

import bisect
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
        from echobuf import EchoLoader

        self.loader = EchoLoader(
            list(self._batches()),
            batched=True,
            batch_size=self.settings["rows"],
            window=self.settings["window"],
            factor=1,
            ragged="packed",
            pack_to=self.length,
            seed=self.settings.get("seed", 0),
        )

    def _batches(self) -> Iterator[Any]:
        step = 256
        for first in range(0, len(self.lengths), step):
            offsets = self.offsets[first : first + step + 1]
            yield self.values[offsets[0] : offsets[-1]], offsets - offsets[0]

    def used(self) -> Iterator[Any]:
        for batch in self.loader:
            yield batch.lengths


class Python(_Packing):
    """A packer in Python: `open_rows` rows, of which the first with room is filled.

    With one open row it is the loop that most people write, and examples that do not fit
    close the row.
    """

    guarantees = (("order", "as read"), ("ids", "segments and positions"))

    def prepare(self) -> None:
        bounds = self.offsets.tolist()
        self.examples = [
            self.values[first:end]
            for first, end in zip(bounds, bounds[1:], strict=False)
        ]

    def rows(self) -> Iterator[list[Any]]:
        """Yield the examples of each row."""
        most, length = self.settings.get("open_rows", 1), self.length
        rows: list[list[Any]] = []
        room: list[int] = []
        for example in self.examples:
            size = len(example)
            for at, left in enumerate(room):
                if size <= left:
                    break
            else:
                if len(rows) == most:
                    yield rows.pop(0)
                    room.pop(0)
                at = len(rows)
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
    """`trl.pack_dataset`, best fit decreasing, 1,000 examples at a time as it is called.

    Its rows are lists of Arrow, neither padded nor with ids of segments.
    """

    packages = ("trl", "datasets", "pyarrow")
    guarantees = (("order", "by length"), ("ids", "lengths of examples"))

    def prepare(self) -> None:
        import datasets
        import pyarrow as pa
        from trl import pack_dataset

        datasets.disable_progress_bars()
        self.pack = pack_dataset
        column = pa.LargeListArray.from_arrays(self.offsets, self.values)
        self.dataset = datasets.Dataset(pa.table({"input_ids": column}))

    def used(self) -> Iterator[Any]:
        kwargs = {"keep_in_memory": True, "load_from_cache_file": False}
        kwargs["batch_size"] = self.settings.get("at_once", 1000)
        packed = self.pack(self.dataset, self.length, "bfd", kwargs)
        for column in packed.data.column("input_ids").chunks:
            yield column.value_lengths().to_numpy()


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
