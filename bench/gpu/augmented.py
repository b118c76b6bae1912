"""Augmented batches on the device: echobuf's, and what moves as many bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ask import Settings
from echobuf import transforms as t
from place import Place
from window import Draw, Window


class AugmentedWindow(Window):
    """Crop, flip, to a small float, normalise, channels first."""

    def transform(self) -> Any:
        crop = t.RandomCrop if self.settings["cut"] == "crop" else t.RandomResizedCrop
        return {
            "image": [
                crop(self.settings["size"]),
                t.RandomHorizontalFlip(),
                t.ToDtype(np.float32, scale=True),
                t.Normalize(self.settings["mean"], self.settings["std"]),
                t.ToDtype(self.settings["dtype"]),
                t.ToChannelFirst(),
            ]
        }

    def drawn(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        size = self.settings["size"]
        return {
            "image": (
                (3, size, size),
                self.buffer.output.spec.fields[0].dtype,
            )
        }


class Augment(Draw):
    """`next_batch()`, which augments."""

    kind = "augmented"
    make = AugmentedWindow

    def check(self) -> None:
        self.begin()
        self.run()
        image = self.place.to_host(self.last["image"]).astype(np.float32)
        size = self.settings["size"]
        assert image.shape == (self.settings["batch"], 3, size, size)
        least = min(-m / s for m, s in zip(*self._moments(), strict=True))
        most = max((1 - m) / s for m, s in zip(*self._moments(), strict=True))
        assert least - 0.1 < image.min() < image.max() < most + 0.1
        assert len({row.tobytes() for row in image}) == len(image)

    def _moments(self) -> tuple[list[float], list[float]]:
        return self.settings["mean"], self.settings["std"]

    def facts(self) -> dict[str, Any]:
        return {"bytes_per_unit": moved_bytes(self.settings)}


def moved_bytes(settings: Settings) -> int:
    """Count the bytes of pixels read and of numbers written for a batch."""
    numbers = settings["batch"] * 3 * settings["size"] ** 2
    return numbers * (1 + (4 if settings["dtype"] == "float32" else 2))


class Moved:
    """A copy within the device that reads and writes as many bytes."""

    def __init__(self, place: Place, settings: Settings) -> None:
        self._place = place
        self._batches = int(settings["batches"])
        self._size = moved_bytes(settings) // 2
        make = place.empty
        self._pairs = [
            (make((self._size,), np.uint8), make((self._size,), np.uint8))
            for _ in range(2)
        ]

    def run(self) -> int:
        for turn in range(self._batches):
            self._place.copy(*self._pairs[turn % 2])
        return self._batches

    def facts(self) -> dict[str, Any]:
        return {"bytes_per_unit": 2 * self._size}
