"""Candidates that draw batches of sequences of different length on a device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Any

import numpy as np

from ask import Settings
from echobuf import EchoBuffer, Field
from place import Place

FACTOR = 8
SIGMA = 1.0  # of the logarithm of lengths


class Sequences:
    """Tokens of all sequences, `values`, which begin at `offsets`.

    The first token of a sequence is its number.
    """

    def __init__(self, settings: Settings) -> None:
        rng = np.random.default_rng(0)
        count = settings["records"]
        middle = np.log(settings["mean"]) - SIGMA**2 / 2
        lengths = rng.lognormal(middle, SIGMA, count).astype(np.int64)
        self.offsets = np.zeros(count + 1, np.int64)
        np.cumsum(lengths.clip(1, settings["longest"]), out=self.offsets[1:])
        self.values = rng.integers(1, 32_000, self.offsets[-1], dtype=np.int32)
        self.values[self.offsets[:-1]] = np.arange(count)
        self.mean_bytes = self.values.nbytes / count

    def check(self, rows: list[Any], batch: int) -> None:
        """Fail unless `rows` are `batch` different sequences, whole."""
        numbers = {int(row[0]) for row in rows}
        if len(rows) != batch or len(numbers) != batch:
            raise AssertionError(f"{len(rows)} rows of {len(numbers)} sequences")
        for row in rows:
            first, end = self.offsets[int(row[0]) :][:2]
            if not np.array_equal(row, self.values[first:end]):
                raise AssertionError(f"sequence {row[0]} is another one")


def rows_of(place: Place, form: str, values: Any, where: Any) -> list[Any]:
    """Return the sequences of a batch on the host; `where`: offsets, or lengths."""
    values, where = place.to_host(values), place.to_host(where)
    if form == "packed":
        return [values[a:b] for a, b in pairwise(where)]
    return [row[:length] for row, length in zip(values, where, strict=True)]


class _Candidate(ABC):
    def __init__(self, place: Place, settings: Settings) -> None:
        self.place = place
        self.settings = settings
        self.form = settings["form"]
        self.batch, self.batches = settings["batch"], int(settings["batches"])
        key = f"sequences {settings['records']}"
        self.sequences: Sequences = place.once(key, lambda: Sequences(settings))
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Make what lasts for all rounds."""

    @abstractmethod
    def draw(self) -> tuple[Any, Any]:
        """Return values, and offsets or lengths, of a batch."""

    def check(self) -> None:
        self.begin()
        self.run()
        rows = rows_of(self.place, self.form, *self.last)
        self.sequences.check(rows, self.batch)

    def begin(self) -> None:  # noqa: B027
        """Prepare a round, untimed."""

    def facts(self) -> dict[str, Any]:
        return {"bytes_per_unit": self.batch * self.sequences.mean_bytes}

    def run(self) -> int:
        for _ in range(self.batches):
            self.last = self.draw()
        return self.batches


class Copy(_Candidate):
    """As many sequences that lie one after the other, a batch further each time."""

    def prepare(self) -> None:
        offsets = self.sequences.offsets
        self.resident = self.place.once(
            "resident", lambda: self.place.resident(self.sequences.values)
        )
        self.spans = [
            (int(offsets[i]), int(offsets[i + self.batch]))
            for i in range(0, len(offsets) - self.batch, self.batch)
        ]
        self.out = self.place.empty((max(b - a for a, b in self.spans),), np.int32)
        self.turn = 0

    def check(self) -> None:
        first, end = self.spans[self.turn]
        self.draw()
        served = self.place.to_host(self.out)[: end - first]
        if not np.array_equal(served, self.sequences.values[first:end]):
            raise AssertionError("another copy")

    def draw(self) -> tuple[Any, Any]:
        first, end = self.spans[self.turn]
        self.place.copy(self.out[: end - first], self.resident[first:end])
        self.turn = (self.turn + 1) % len(self.spans)
        return self.out, None


class Draw(_Candidate):
    """`next_batch()` from a full window, whose oldest eighth is put again at times."""

    def prepare(self) -> None:
        count = self.settings["records"]
        self.part = count // FACTOR
        if count % FACTOR or self.batches > count // self.batch - 1:
            raise ValueError(f"{self.settings}: uneven segments, or more than a pass")
        # A share has room for each eighth, so that segments end by their records.
        sizes = 4 * np.diff(self.sequences.offsets[:: self.part])
        self.buffer = EchoBuffer(
            Field((None,), np.int32),
            batch_size=self.batch,
            window=count,
            factor=FACTOR,
            payload_bytes=int(FACTOR * sizes.max()),
            ragged=self.form,
            pad_to=self.settings.get("pad_to", 1),
            device="cuda",
        )
        self.next_part = 0
        self.sure = 0  # batches that can be drawn before more must be put
        for _ in range(FACTOR):
            self.put_part()

    def put_part(self) -> None:
        while self.buffer.ready():
            self.buffer.next_batch()
        first = self.next_part * self.part
        self.next_part = (self.next_part + 1) % FACTOR
        offsets = self.sequences.offsets[first : first + self.part + 1]
        values = self.sequences.values[offsets[0] : offsets[-1]]
        self.buffer.put_batch((values, offsets - offsets[0]))
        # One draw of the new pass, which waits for all that was put.
        if self.buffer.ready():
            self.buffer.next_batch()
        self.place.sync()
        self.sure = FACTOR * self.part // self.batch - 1

    def begin(self) -> None:
        if self.sure < self.batches:
            self.put_part()
        self.sure -= self.batches

    def draw(self) -> tuple[Any, Any]:
        values, where = self.buffer.next_batch()
        return values, where

    def close(self) -> None:
        self.buffer.__exit__(None, None, None)


class _Torch(_Candidate):
    """Peers of torch, which draw by a new order of all sequences, made on the host."""

    def prepare(self) -> None:
        self.torch = self.place.torch
        self.rng = np.random.default_rng(1)
        self.order = np.empty(0, np.int64)
        self.lengths = np.diff(self.sequences.offsets)
        self.values = self.torch.from_numpy(self.sequences.values).cuda()
        self.rows = list(self.values.split(self.lengths.tolist()))

    def index(self) -> Any:
        if len(self.order) < self.batch:
            self.order = self.rng.permutation(len(self.lengths))
        index, self.order = self.order[: self.batch], self.order[self.batch :]
        return index

    def offsets(self, index: Any) -> Any:
        offsets = np.zeros(self.batch + 1, np.int64)
        np.cumsum(self.lengths[index], out=offsets[1:])
        return self.torch.from_numpy(offsets).cuda()


class Gather(_Torch):
    """An index of every token, made on the device, and `index_select`."""

    def prepare(self) -> None:
        super().prepare()
        self.starts = self.torch.from_numpy(self.sequences.offsets[:-1]).cuda()

    def draw(self) -> tuple[Any, Any]:
        torch, index = self.torch, self.index()
        offsets, total = self.offsets(index), int(self.lengths[index].sum())
        begin = self.starts[torch.from_numpy(index).cuda()] - offsets[:-1]
        shift = begin.repeat_interleave(offsets.diff(), output_size=total)
        places = torch.arange(total, device="cuda") + shift
        return self.values.index_select(0, places), offsets


class Cat(_Torch):
    """`torch.cat` of the sequences of a batch, views of one resident tensor."""

    def draw(self) -> tuple[Any, Any]:
        index = self.index()
        return self.torch.cat([self.rows[i] for i in index]), self.offsets(index)


class PadSequence(_Torch):
    """`torch.nn.utils.rnn.pad_sequence` of such views."""

    def draw(self) -> tuple[Any, Any]:
        index = self.index()
        pad = self.torch.nn.utils.rnn.pad_sequence
        values = pad([self.rows[i] for i in index], batch_first=True)
        return values, self.torch.from_numpy(self.lengths[index]).cuda()
