"""torch DataLoader around an iterable dataset that repeats and shuffles."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from echobuf.cli.bench.data_loader import shuffled
from echobuf.cli.bench.echoing import Echoing

GUARANTEES = (
    ("exact use", "yes"),
    ("shuffled", "a shuffle buffer of repeated examples"),
    ("duplicates in a batch", "yes"),
    ("batch", "copied; the caller's (workers: through shared memory)"),
    ("timed", "everything; the buffer holds views of upstream, no copy in"),
)


def stacked(examples: Iterator[Any], size: int) -> Iterator[Any]:
    """Yield batches as tensors: one stack in NumPy, which is faster than collating."""
    import torch

    batch = []
    for example in examples:
        batch.append(example)
        if len(batch) == size:
            yield torch.from_numpy(np.stack(batch))
            batch = []
    if batch:
        yield torch.from_numpy(np.stack(batch))


class _Repeating:
    """The dataset's logic; each worker has a share of upstream and of the window."""

    def __init__(self, images: Any, factor: int, window: int, batch: int) -> None:
        self.images, self.factor = images, factor
        self.window, self.batch = window, batch

    def __iter__(self) -> Iterator[Any]:
        from torch.utils.data import get_worker_info

        info = get_worker_info()
        number, workers = (info.id, info.num_workers) if info else (0, 1)
        share = len(self.images) // workers
        images = self.images[number * share : (number + 1) * share]
        repeated = (image for image in images for _ in range(self.factor))
        mixed = shuffled(repeated, self.window // workers, random.Random(number))
        return stacked(mixed, self.batch)


class Echo(Echoing):
    """`"workers"` says how many; the dataset makes whole batches."""

    packages = ("torch", "numpy")
    guarantees = GUARANTEES

    def prepare(self) -> None:
        from torch.utils.data import DataLoader, IterableDataset

        class Dataset(_Repeating, IterableDataset):  # type: ignore[misc, type-arg]
            pass

        workers = self.settings.get("workers", 0)
        self.loader = DataLoader(
            Dataset(self.images, self.factor, self.window, self.batch),
            batch_size=None,
            num_workers=workers,
            persistent_workers=workers > 0,
            prefetch_factor=4 if workers else None,
            multiprocessing_context="fork" if workers else None,
        )

    def batches(self) -> Iterator[Any]:
        yield from self.loader


class Loading:
    """Batches of the small records from a map dataset, fetched a batch at a time."""

    packages = ("torch",)
    guarantees = (
        ("exact use", "once a pass"),
        ("shuffled", "uniformly"),
        ("duplicates in a batch", "none"),
        ("batch", "copied; the caller's"),
        ("timed", "the copy and the order"),
    )

    def __init__(self, settings: dict[str, Any]) -> None:
        import torch
        from torch.utils.data import BatchSampler, DataLoader, RandomSampler

        from echobuf.cli.bench.records import make_records

        self.settings = settings
        arrays = make_records(settings)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}

        class Dataset(torch.utils.data.Dataset):  # type: ignore[type-arg]
            def __len__(self) -> int:
                return int(settings["records"])

            def __getitem__(self, index: list[int]) -> Any:
                chosen = torch.tensor(index)
                return {name: t.index_select(0, chosen) for name, t in tensors.items()}

        dataset = Dataset()
        batches = BatchSampler(RandomSampler(dataset), settings["batch"], True)
        self.loader = DataLoader(dataset, sampler=batches, batch_size=None)
        self.iterator = iter(self.loader)

    def run(self) -> int:
        wanted = int(self.settings["batches"])
        for _ in range(wanted):
            if next(self.iterator, None) is None:
                self.iterator = iter(self.loader)
                next(self.iterator)
        return wanted
