"""Common parts of candidates that augment: the images, and a check of batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np


class Augmenting(ABC):
    """From `uint8[records, 256, 256, 3]` to `float32[batch, 3, size, size]`."""

    packages: tuple[str, ...] = ("numpy",)
    guarantees = (
        ("exact use", "images are taken in order, each once a pass"),
        ("shuffled", "no: only the augmentation is timed"),
        ("duplicates in a batch", "none"),
        ("batch", "fresh memory"),
        ("timed", "the augmentation, and putting the batch together"),
    )

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.batch = settings["batch"]
        self.size = settings["size"]
        self.mean = np.asarray(settings["mean"], np.float32)
        self.std = np.asarray(settings["std"], np.float32)
        count = settings["records"]
        small = np.random.default_rng(0).integers(0, 256, (count, 16, 16, 3), np.uint8)
        self.images = np.ascontiguousarray(small.repeat(16, axis=1).repeat(16, axis=2))
        self.at = 0
        self.open()

    @abstractmethod
    def open(self) -> None:
        """Import the peer, and make the objects that last for all rounds."""

    @abstractmethod
    def make(self, first: int) -> Any:
        """Augment a batch of the images from `first` on."""

    def warm_up(self) -> None:
        batch = np.asarray(self.make(0))
        wanted = (self.batch, 3, self.size, self.size)
        if batch.shape != wanted or batch.dtype != np.float32:
            raise AssertionError(f"{batch.dtype}{batch.shape}, not float32{wanted}")
        low = ((0.0 - self.mean) / self.std).min() - 1e-3
        high = ((1.0 - self.mean) / self.std).max() + 1e-3
        if batch.min() < low or batch.max() > high or batch.std() < 0.5:
            raise AssertionError("the batch is not normalised")

    def run(self) -> int:
        for _ in range(self.settings["batches"]):
            self.make(self.at)
            self.at = (self.at + self.batch) % len(self.images)
        return int(self.settings["batches"])
