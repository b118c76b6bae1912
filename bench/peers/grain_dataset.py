"""grain: examples repeated, shuffled in windows, batched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from echobuf.cli.bench.echoing import Echoing


class _Repeated:
    """A random-access source: upstream, each example e times in a row."""

    def __init__(self, images: Any, factor: int) -> None:
        self.images, self.factor = images, factor

    def __len__(self) -> int:
        return len(self.images) * self.factor

    def __getitem__(self, index: int) -> Any:
        return self.images[index // self.factor]


class Echo(Echoing):
    """Reads in the calling thread: threads only add hand-overs to data in memory."""

    packages = ("grain", "numpy")
    guarantees = (
        ("exact use", "yes"),
        ("shuffled", "within windows of repeated examples, one after the other"),
        ("duplicates in a batch", "yes"),
        ("batch", "copied; the caller's"),
        ("timed", "everything; the window holds views of upstream, no copy in"),
    )

    def prepare(self) -> None:
        import grain
        from grain.experimental import WindowShuffleIterDataset

        source = grain.MapDataset.source(_Repeated(self.images, self.factor))
        options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        repeated = source.to_iter_dataset(read_options=options)
        mixed = WindowShuffleIterDataset(repeated, window_size=self.window, seed=0)
        self.dataset = mixed.batch(self.batch)

    def batches(self) -> Iterator[Any]:
        return iter(self.dataset)
