"""echobuf: batches drawn and augmented in one."""

from __future__ import annotations

from typing import Any

import numpy as np

import echobuf
from echobuf import transforms
from peers.augment_images import Augmenting


class Draw(Augmenting):
    """A window of all images, swept again and again."""

    packages = ("numpy", "echobuf")
    guarantees = (
        ("exact use", "once a pass"),
        ("shuffled", "uniformly, over the window"),
        ("duplicates in a batch", "none"),
        ("batch", "recycled memory"),
        ("timed", "the draw, shuffling included"),
    )

    def open(self) -> None:
        size, settings = self.size, self.settings
        cut = transforms.RandomCrop(size)
        if settings["cut"] == "resized":
            cut = transforms.RandomResizedCrop(size)
        chain = [
            cut,
            transforms.RandomHorizontalFlip(),
            transforms.ToDtype(np.float32, scale=True),
            transforms.Normalize(settings["mean"], settings["std"]),
            transforms.ToChannelFirst(),
        ]
        self.buffer = self._buffer(chain, len(self.images))
        self.out = None
        if settings.get("out"):
            shape = (self.batch, 3, size, size)
            self.out = np.zeros(shape, np.float32)

    def _buffer(self, chain: Any, count: int) -> Any:
        buffer = echobuf.EchoBuffer(
            echobuf.Field(self.images.shape[1:], np.uint8),
            batch_size=self.batch,
            window=count,
            factor="auto",
            max_factor=2**31 - 1,
            transform=chain,
        )
        buffer.put_batch(self.images)
        return buffer

    def make(self, first: int) -> Any:
        return self.buffer.next_batch(out=self.out)
