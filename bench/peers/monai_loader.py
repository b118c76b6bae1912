"""MONAI: `ThreadDataLoader(repeats=e)`, which is batch echoing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from echobuf.cli.bench.echoing import Echoing


class _Images:
    """A map dataset that fetches a batch at once: NumPy's `take` is the fastest."""

    def __init__(self, images: Any) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: list[int]) -> Any:
        return self.images.take(index, axis=0, mode="clip")


def _to_tensor(batch: Any) -> Any:
    import torch

    return torch.from_numpy(batch)


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
        from monai.data import ThreadDataLoader
        from torch.utils.data import BatchSampler, RandomSampler

        images = _Images(self.images)
        self.loader = ThreadDataLoader(
            images,
            buffer_size=4,
            repeats=self.factor,
            batch_size=None,
            collate_fn=_to_tensor,  # MONAI's own takes lists of examples
            sampler=BatchSampler(RandomSampler(images), self.batch, drop_last=False),
        )

    def batches(self) -> Iterator[Any]:
        return iter(self.loader)
