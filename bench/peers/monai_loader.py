"""MONAI: `ThreadDataLoader(repeats=e)`, which is batch echoing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from echobuf.cli.bench.candidates.base import Echoing


class _Images:
    """A map dataset that fetches a batch at once, in the fastest way of torch."""

    def __init__(self, images: Any) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: list[int]) -> Any:
        import torch

        return self.images.index_select(0, torch.tensor(index))


def _as_it_is(batch: Any) -> Any:
    return batch


class Echo(Echoing):
    """The next batch is made by a thread while a batch is repeated."""

    packages = ("monai", "torch")
    guarantees = (
        ("exact use", "yes"),
        ("shuffled", "over all of upstream, which must have random access"),
        ("duplicates in a batch", "none; a batch is repeated as it is"),
        ("batch", "copied once, then the same object e times"),
        ("timed", "everything"),
    )

    def prepare(self) -> None:
        import torch
        from monai.data import ThreadDataLoader
        from torch.utils.data import BatchSampler, RandomSampler

        images = _Images(torch.from_numpy(self.images))
        self.loader = ThreadDataLoader(
            images,
            buffer_size=4,
            repeats=self.factor,
            batch_size=None,
            collate_fn=_as_it_is,  # MONAI's own takes lists of examples
            sampler=BatchSampler(RandomSampler(images), self.batch, drop_last=False),
        )

    def batches(self) -> Iterator[Any]:
        return iter(self.loader)
