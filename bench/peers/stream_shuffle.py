"""Rows of files that are streamed, through a shuffle buffer of the library or echobuf.

A record is a float32[32] and an int64, in four Parquet or tar files on a local disk.
With `"echobuf"` in the settings the library reads, and `EchoLoader` shuffles.
"""

from __future__ import annotations

import io
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from echobuf.cli.bench.records import make_records

FILES = 4


class _Streaming(ABC):
    guarantees: tuple[tuple[str, str], ...] = (
        ("each row", "exactly once"),
        ("timed", "everything, with reading, and filling and draining the buffer"),
    )

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.columns = make_records(settings)
        self.columns["y"][:] = np.arange(settings["records"])
        self.batch, self.buffer = settings["batch"], settings["buffer"]
        self._folder = tempfile.TemporaryDirectory(prefix="stream")
        self.folder = Path(self._folder.name)
        self.batches = self.prepare()
        if "echobuf" in settings:
            from echobuf import EchoLoader

            self.batches = EchoLoader(
                self.batches,
                batch_size=self.batch,
                batched=settings["echobuf"] == "batches",
                window=self.buffer,
                factor=1,
            )

    @abstractmethod
    def prepare(self) -> Any:
        """Write the files; return what is iterated in each epoch."""

    def label(self, batch: Any) -> Any:
        """Return the column `y` of a batch."""
        return batch["y"]

    def parts(self) -> Iterator[tuple[str, slice]]:
        """Yield the name of each file, and the rows in it."""
        count = -(-self.settings["records"] // FILES)
        for number in range(FILES):
            rows = slice(number * count, (number + 1) * count)
            yield str(self.folder / f"{number}"), rows

    def warm_up(self) -> None:
        """Check that each row came once, and not in the order of the files."""
        seen = np.concatenate([np.array(self.label(batch)) for batch in self.batches])
        assert not np.array_equal(seen, np.arange(len(seen)))
        seen.sort()
        assert np.array_equal(seen, np.arange(self.settings["records"]))

    def run(self) -> int:
        return sum(len(self.label(batch)) for batch in self.batches)

    def close(self) -> None:
        self._folder.cleanup()


class _OfParquet(_Streaming):
    def write(self) -> list[str]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        files = []
        for name, rows in self.parts():
            x = self.columns["x"][rows]
            flat = pa.array(x.reshape(-1))
            flat = pa.FixedSizeListArray.from_arrays(flat, x.shape[1])
            table = pa.table({"x": flat, "y": pa.array(self.columns["y"][rows])})
            pq.write_table(table, f"{name}.parquet")
            files.append(f"{name}.parquet")
        return files


class HuggingFace(_OfParquet):
    """`load_dataset(streaming=True)`, `.shuffle(buffer_size)`, `.batch`."""

    packages = ("datasets", "pyarrow", "numpy", "echobuf")

    def prepare(self) -> Any:
        import datasets

        datasets.disable_progress_bars()
        stream = datasets.load_dataset(
            "parquet",
            data_files=self.write(),
            split="train",
            streaming=True,
            cache_dir=str(self.folder / "cache"),
        )
        ours = self.settings.get("echobuf")
        if not ours:
            # More input shards are read by threads, whose end is waited for in sleeps.
            stream = stream.shuffle(
                seed=0, buffer_size=self.buffer, max_buffer_input_shards=1
            )
        stream = stream.with_format("numpy")
        return stream if ours == "rows" else stream.batch(self.batch)


class Webdataset(_Streaming):
    """`WebDataset` of tar files, `.shuffle`, `.decode`, `.to_tuple`, `.batched`."""

    packages = ("webdataset", "numpy", "echobuf")

    def prepare(self) -> Any:
        import webdataset as wds

        files = []
        for name, rows in self.parts():
            with wds.TarWriter(f"{name}.tar") as tar:
                for x, y in zip(
                    self.columns["x"][rows], self.columns["y"][rows], strict=True
                ):
                    tar.write({"__key__": str(y), "x.npy": _npy(x), "y.cls": int(y)})
            files.append(f"{name}.tar")
        rows = wds.WebDataset(files, shardshuffle=False)
        if not self.settings.get("echobuf"):
            rows = rows.shuffle(self.buffer, initial=self.buffer)
        rows = rows.decode().to_tuple("x.npy", "y.cls")
        if self.settings.get("echobuf") == "rows":
            return rows
        return rows.batched(self.batch, collation_fn=_stack)

    def label(self, batch: Any) -> Any:
        return batch[1]


class RayData(_OfParquet):
    """`read_parquet`, `iter_batches(local_shuffle_buffer_size)`."""

    packages = ("ray", "pyarrow", "numpy", "echobuf")

    def prepare(self) -> Any:
        import ray

        ray.init(
            address="local",
            num_cpus=1,
            include_dashboard=False,
            object_store_memory=400 * 2**20,
            log_to_driver=False,
            logging_level="error",
        )
        ray.data.DataContext.get_current().enable_progress_bars = False
        dataset = ray.data.read_parquet(self.write())
        # In here: Ray's processes do not import this module.
        dataset = dataset.map_batches(
            lambda columns: {"x": np.stack(columns["x"]), "y": columns["y"]}
        )
        if self.settings.get("echobuf"):
            return dataset
        return dataset.iter_batches(
            batch_size=self.batch,
            local_shuffle_buffer_size=self.buffer,
            local_shuffle_seed=0,
        )


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _stack(rows: list[Any]) -> Any:
    xs, ys = zip(*rows, strict=True)
    return np.stack(xs), np.array(ys)
