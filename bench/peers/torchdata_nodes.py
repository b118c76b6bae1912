"""torchdata.nodes: a repeating, shuffling node, `Batcher`, `Mapper`, `Prefetcher`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from echobuf.cli.bench.data_loader import shuffled
from echobuf.cli.bench.echoing import Echoing


class Echo(Echoing):
    """torchdata has no node that shuffles: an `IterableWrapper` around a buffer."""

    packages = ("torchdata", "torch", "numpy")
    guarantees = (
        ("exact use", "yes"),
        ("shuffled", "a shuffle buffer of repeated examples, not its own"),
        ("duplicates in a batch", "yes"),
        ("batch", "copied; the caller's"),
        ("timed", "everything; the buffer holds views of upstream, no copy in"),
    )

    def prepare(self) -> None:
        import torch
        from torchdata import nodes

        self.nodes = nodes
        self.to_tensor = torch.from_numpy

    def stack(self, examples: list[Any]) -> Any:
        return self.to_tensor(np.stack(examples))

    def batches(self) -> Iterator[Any]:
        mixed = shuffled(self.repeated(), self.window, random.Random(0))
        node = self.nodes.IterableWrapper(mixed)
        node = self.nodes.Batcher(node, self.batch, drop_last=False)
        node = self.nodes.Mapper(node, self.stack)
        if self.settings.get("prefetch"):
            node = self.nodes.Prefetcher(node, self.settings["prefetch"])
        node.reset()
        while True:
            try:
                yield next(node)
            except StopIteration:
                return
