"""A DataLoader of `(tensor, int)`, iterated alone and by echobuf's loader."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset[tuple[torch.Tensor, int]]):
    """Examples of a float32 tensor, made anew each time, and an int."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._images = torch.rand(settings["source"], *settings["shape"])
        self._count = settings["records"]

    def __len__(self) -> int:
        return int(self._count)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self._images[index % len(self._images)] * 2.0, index


class Alone:
    """The DataLoader, without workers."""

    packages = ("torch",)

    def __init__(self, settings: dict[str, Any]) -> None:
        torch.set_num_threads(1)
        self.count = settings["records"]
        self.batches: Iterable[Any] = DataLoader(
            Pairs(settings), batch_size=settings["batch"], shuffle=True
        )

    def warm_up(self) -> None:
        """Check that an epoch has each example once, whole."""
        seen = torch.cat([labels.clone() for _, labels in self.batches])
        assert torch.equal(seen.sort().values, torch.arange(self.count))

    def run(self) -> int:
        return sum(len(labels) for _, labels in self.batches)


class Echoed(Alone):
    """`echobuf.torch.EchoLoader` around it, factor 1."""

    packages = ("echobuf", "torch", "numpy", "optree")

    def __init__(self, settings: dict[str, Any]) -> None:
        from echobuf.torch import EchoLoader

        super().__init__(settings)
        self.batches = EchoLoader(self.batches, window=settings["window"], factor=1)
