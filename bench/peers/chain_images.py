"""Common parts of candidates that run chains: the images, and a check of batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np


class Chained(ABC):
    """Images 256x256x3 through the operations of the settings, a batch at a time.

    `layout` is that of the library's own images; None: that of the settings.
    """

    packages: tuple[str, ...] = ("numpy",)
    guarantees = (
        ("exact use", "images are taken in order, each once a pass"),
        ("shuffled", "no: only the augmentation is timed"),
        ("duplicates in a batch", "none"),
        ("batch", "fresh memory"),
        ("timed", "the augmentation, and putting the batch together"),
    )
    operations: frozenset[str] = frozenset()  # those that the library has
    dtypes = frozenset({"uint8", "float32"})  # those that it can make
    layout: str | None = None

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.batch = settings["batch"]
        self.result = settings["result"]
        self.views = settings["views"]
        self.chain = [tuple(operation) for operation in settings["operations"]]
        self.stored = self.layout or settings["layout"]
        if self.chain[0][0] == "ToChannelFirst":
            self.stored = settings["layout"]  # which it is about
        self.images = make_images(settings["records"], settings["dtype"], self.stored)
        self.labels = np.arange(len(self.images)) % 1000
        self.at = 0
        self.open()

    @classmethod
    def has(cls, settings: dict[str, Any]) -> bool:
        """Return True if the library has all operations, and makes such a result."""
        names = {name for name, _ in settings["operations"]}
        return names <= cls.operations and settings["result"]["dtype"] in cls.dtypes

    @abstractmethod
    def open(self) -> None:
        """Import the library, and make the objects that last for all rounds."""

    @abstractmethod
    def make(self, first: int) -> Any:
        """Augment a batch of the images from `first` on."""

    def to_numpy(self, batch: Any) -> tuple[Any, str]:
        """Return the batch's images for the check, and the name of their dtype."""
        return np.asarray(batch), str(batch.dtype)

    def warm_up(self) -> None:
        size = self.result["size"]
        layout = self.result["layout"]
        if "ToChannelFirst" not in dict(self.chain):
            layout = self.stored
        image = (3, size, size) if layout == "CHW" else (size, size, 3)
        images, dtype = self.to_numpy(self.make(0))
        wanted = (self.batch * self.views, *image)
        if images.shape != wanted or dtype != self.result["dtype"]:
            raise AssertionError(
                f"{dtype}{images.shape}, not {self.result['dtype']}{wanted}"
            )
        expected, unit = self._expected()
        mean, std = float(images.mean(dtype=float)), float(images.std(dtype=float))
        if abs(mean - expected) > 0.2 * unit or not 0.08 < std / unit < 0.45:
            raise AssertionError(f"mean {mean:.3f}, standard deviation {std:.3f}")

    def _expected(self) -> tuple[float, float]:
        """Return the mean of batches, and the distance between black and white."""
        settings = dict(self.chain).get("Normalize")
        if settings is None:
            unit = 255.0 if self.result["dtype"] == "uint8" else 1.0
            return 0.47 * unit, unit
        mean, std = np.asarray(settings["mean"]), np.asarray(settings["std"])
        return float(((0.47 - mean) / std).mean()), float((1 / std).mean())

    def run(self) -> int:
        self.make(self.at)
        self.at = (self.at + self.batch) % len(self.images)
        return 1


def make_images(count: int, dtype: str, layout: str) -> Any:
    """Make images of 16x16 squares with a little noise, whose mean is near 0.47."""
    random = np.random.default_rng(0)
    squares = random.integers(0, 226, (count, 16, 16, 3), np.uint8)
    noise = random.integers(0, 16, (256, 256, 3), np.uint8)
    images = squares.repeat(16, axis=1).repeat(16, axis=2) + noise
    if layout == "CHW":
        images = images.transpose(0, 3, 1, 2)
    if dtype == "uint8":
        return np.ascontiguousarray(images)
    return np.ascontiguousarray(images) / np.asarray(255, dtype)
