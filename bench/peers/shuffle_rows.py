"""Rows of a table, through a shuffle buffer, in batches.

A record is a float32[32] and an int64. What each candidate is given is the form that it
reads fastest of: columns in memory, as NumPy arrays or as an Arrow table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from echobuf.cli.bench.records import make_records


class _Shuffling(ABC):
    guarantees: tuple[tuple[str, str], ...] = (
        ("each row", "exactly once"),
        ("timed", "everything, with filling and draining the buffer"),
    )

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.columns = make_records(settings)
        self.columns["y"][:] = np.arange(settings["records"])
        self.batch = settings["batch"]
        self.buffer = settings["buffer"]
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Import the peer, and make what lasts for all epochs."""

    @abstractmethod
    def labels(self) -> Iterator[Any]:
        """Return the column `y` of each batch of an epoch."""

    def warm_up(self) -> None:
        """Check that each row came once, and not in the order of the table."""
        seen = np.concatenate([np.array(batch) for batch in self.labels()])
        assert not np.array_equal(seen, np.arange(len(seen)))
        seen.sort()
        assert np.array_equal(seen, np.arange(self.settings["records"]))

    def run(self) -> int:
        return sum(len(batch) for batch in self.labels())


class Echobuf(_Shuffling):
    """`EchoLoader`, factor 1; `"arrow"`: from record batches of a table."""

    packages = ("echobuf", "numpy", "optree", "pyarrow")

    def prepare(self) -> None:
        from echobuf import EchoLoader

        upstream: Any = list(self._slices())
        if self.settings.get("arrow"):
            upstream = _ArrowBatches(_table(self.columns), self.settings["rows"])
        self.loader = EchoLoader(
            upstream,
            batched=True,
            batch_size=self.batch,
            window=self.buffer,
            factor=1,
        )

    def _slices(self) -> Iterator[Any]:
        rows = self.settings["rows"]
        for start in range(0, self.settings["records"], rows):
            yield {n: a[start : start + rows] for n, a in self.columns.items()}

    def labels(self) -> Iterator[Any]:
        for batch in self.loader:
            yield batch["y"]


class _ArrowBatches:
    """Columns of record batches, as docs/upstreams.md has them."""

    def __init__(self, table: Any, rows: int) -> None:
        self._table, self._rows = table, rows

    def __iter__(self) -> Iterator[Any]:
        for batch in self._table.to_batches(max_chunksize=self._rows):
            x = batch.column("x").flatten().to_numpy()
            yield {"x": x.reshape(len(batch), -1), "y": batch.column("y").to_numpy()}


def _table(columns: dict[str, Any]) -> Any:
    import pyarrow as pa

    flat = pa.array(columns["x"].reshape(-1))
    x = pa.FixedSizeListArray.from_arrays(flat, columns["x"].shape[1])
    return pa.table({"x": x, "y": pa.array(columns["y"])})


class HuggingFace(_Shuffling):
    """`datasets`: a streaming dataset over an Arrow table, `shuffle`, `batch`."""

    packages = ("datasets", "pyarrow", "numpy")

    def prepare(self) -> None:
        import datasets

        datasets.disable_progress_bars()
        table = datasets.Dataset(_table(self.columns))
        stream = table.to_iterable_dataset().shuffle(0, buffer_size=self.buffer)
        self.dataset = stream.with_format("numpy").batch(self.batch)

    def labels(self) -> Iterator[Any]:
        for batch in self.dataset:
            yield batch["y"]


class Webdataset(_Shuffling):
    """webdataset: `shuffle` over rows that are views of the columns, `batched`."""

    packages = ("webdataset", "numpy")

    def prepare(self) -> None:
        import webdataset

        self.webdataset = webdataset

    def labels(self) -> Iterator[Any]:
        wds = self.webdataset
        pipeline = wds.DataPipeline(
            self._rows,
            wds.shuffle(self.buffer, initial=self.buffer),
            wds.batched(self.batch, collation_fn=_stack),
        )
        for _, labels in pipeline:
            yield labels

    def _rows(self) -> Iterator[Any]:
        return zip(self.columns["x"], self.columns["y"], strict=True)


def _stack(rows: list[Any]) -> Any:
    xs, ys = zip(*rows, strict=True)
    return np.stack(xs), np.array(ys)
