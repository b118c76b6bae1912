"""OpenCV, written by hand: the fastest of the ways tried."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from peers.augment_images import Augmenting


class Images(Augmenting):
    """Cut, `resize`, `flip`, `split`, then `multiply` and `subtract` into the batch."""

    packages = ("cv2", "numpy")
    guarantees = (
        *Augmenting.guarantees[:3],
        ("batch", "the same memory each time"),
        ("timed", "the augmentation, written straight into the batch"),
    )

    def open(self) -> None:
        import cv2

        cv2.setNumThreads(0)
        self.cv2 = cv2
        self.chance = np.random.default_rng(0)
        self.factor = [float(1 / (255 * std)) for std in self.std]
        self.offset = [float(m / s) for m, s in zip(self.mean, self.std, strict=True)]
        self.out = np.zeros((self.batch, 3, self.size, self.size), np.float32)

    def make(self, first: int) -> Any:
        cv2, resized = self.cv2, self.settings["cut"] == "resized"
        for row, image in enumerate(self.images[first : first + self.batch]):
            height, width = self._window(image) if resized else (self.size, self.size)
            top = self.chance.integers(0, image.shape[0] - height + 1)
            left = self.chance.integers(0, image.shape[1] - width + 1)
            cut = image[top : top + height, left : left + width]
            if resized:
                cut = cv2.resize(cut, (self.size, self.size))
            if self.chance.random() < 0.5:
                cut = cv2.flip(cut, 1)
            for channel, plane in enumerate(cv2.split(cut)):
                out = self.out[row, channel]
                cv2.multiply(plane, self.factor[channel], out, dtype=cv2.CV_32F)
                cv2.subtract(out, self.offset[channel], out)
        return self.out

    def _window(self, image: Any) -> tuple[int, int]:
        """Draw a crop as torchvision's RandomResizedCrop does."""
        height, width = image.shape[:2]
        for _ in range(10):
            area = height * width * self.chance.uniform(0.08, 1.0)
            ratio = math.exp(self.chance.uniform(math.log(3 / 4), math.log(4 / 3)))
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                return h, w
        return height, width
