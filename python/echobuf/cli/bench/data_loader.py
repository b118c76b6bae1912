"""A torch DataLoader that echoes a stream of examples, as its users would write it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from echobuf.cli.bench.echoing import TIMED, Echoing

BUFFERED = (
    ("exact use", "yes"),
    ("shuffled", "a shuffle buffer of repeated examples"),
    ("duplicates in a batch", "yes"),
)


def shuffled(examples: Iterator[Any], size: int, rng: random.Random) -> Iterator[Any]:
    """Make tf.data's shuffle buffer."""
    held: list[Any] = []
    for example in examples:
        if len(held) < size:
            held.append(example)
            continue
        index = int(rng.random() * size)
        chosen, held[index] = held[index], example
        yield chosen
    rng.shuffle(held)
    yield from held


class Loader(Echoing):
    """A DataLoader without workers, which collates examples itself."""

    packages = ("torch", "numpy")
    guarantees = (*BUFFERED, ("batch", "copied; the caller's"), TIMED)

    def prepare(self) -> None:
        from torch.utils.data import DataLoader, IterableDataset

        upstream, window = self.repeated, self.window

        class Dataset(IterableDataset):  # type: ignore[type-arg]
            def __iter__(self) -> Iterator[Any]:
                return shuffled(upstream(), window, random.Random(0))

        self.loader = DataLoader(Dataset(), batch_size=self.batch)

    def batches(self) -> Iterator[Any]:
        return iter(self.loader)
