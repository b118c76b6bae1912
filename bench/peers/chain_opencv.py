"""OpenCV, written by hand: the fastest of the ways tried."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from peers.chain_images import Chained

Step = Callable[[Any, Any], Any]  # takes an image, and where the result may lie


class Images(Chained):
    """A function of OpenCV for each operation, the last one into the batch."""

    packages = ("cv2", "numpy")
    layout = "HWC"
    operations = frozenset(
        {
            "ColorJitter",
            "CutMix",
            "GaussianBlur",
            "GaussianNoise",
            "MixUp",
            "Normalize",
            "Pad",
            "RandomCrop",
            "RandomErasing",
            "RandomHorizontalFlip",
            "RandomResizedCrop",
            "RandomRotation",
            "Resize",
            "ToChannelFirst",
            "ToDtype",
        }
    )
    guarantees = (
        *Chained.guarantees[:3],
        ("batch", "the same memory each time"),
        ("timed", "the augmentation, written straight into the batch"),
    )

    def open(self) -> None:
        import cv2

        cv2.setNumThreads(0)
        cv2.setRNGSeed(0)
        self.cv2 = cv2
        self.chance = np.random.default_rng(0)
        makers = {
            "ColorJitter": self._color_jitter,
            "CutMix": self._cut_mix,
            "GaussianBlur": self._blur,
            "GaussianNoise": self._noise,
            "MixUp": self._mix_up,
            "Pad": self._pad,
            "RandomCrop": self._crop,
            "RandomErasing": self._erasing,
            "RandomHorizontalFlip": self._flip,
            "RandomResizedCrop": self._resized_crop,
            "RandomRotation": self._rotation,
            "Resize": self._resize,
        }
        size = self.result["size"]
        self.steps = [
            makers[name](arguments) for name, arguments in self.chain if name in makers
        ]
        self.normalize = dict(self.chain).get("Normalize")
        self.planes = "ToChannelFirst" in dict(self.chain)
        image = (3, size, size) if self.planes else (size, size, 3)
        self.out = np.zeros((self.batch, *image), self.result["dtype"])
        self.one_hot = np.zeros((self.batch, 1000), np.float32)
        if self.normalize:
            mean, std = self.normalize["mean"], self.normalize["std"]
            self.factor = [1 / (255 * one) for one in std]
            self.offset = [one / s for one, s in zip(mean, std, strict=True)]

    def make(self, first: int) -> Any:
        self.first = first
        for row, image in enumerate(self.images[first : first + self.batch]):
            self.row = row
            out = self.out[row]
            made = self._augment(image, None if self.planes else out)
            if self.normalize:
                self._normalize(made, out)
            elif self.planes:
                for channel, plane in enumerate(out):
                    self.cv2.extractChannel(made, channel, plane)
            elif not np.may_share_memory(made, out):
                np.copyto(out, made)
        return self.out

    def _augment(self, image: Any, out: Any) -> Any:
        """Return an image after all steps, of which the last one may write to `out`."""
        made = image
        for number, step in enumerate(self.steps, 1):
            made = step(made, out if number == len(self.steps) else None)
        return made

    def _normalize(self, image: Any, out: Any) -> None:
        cv2 = self.cv2
        for channel, plane in enumerate(cv2.split(image)):
            factor, offset = self.factor[channel], self.offset[channel]
            cv2.multiply(plane, factor, out[channel], dtype=cv2.CV_32F)
            cv2.subtract(out[channel], offset, out[channel])

    def _crop(self, arguments: dict[str, Any]) -> Step:
        size, pad = arguments["size"], arguments.get("padding", 0)
        border = self.cv2.copyMakeBorder, self.cv2.BORDER_REFLECT_101

        def crop(image: Any, out: Any) -> Any:
            if pad:
                image = border[0](image, pad, pad, pad, pad, border[1])
            top = self.chance.integers(0, image.shape[0] - size + 1)
            left = self.chance.integers(0, image.shape[1] - size + 1)
            return image[top : top + size, left : left + size]

        return crop

    def _pad(self, arguments: dict[str, Any]) -> Step:
        edges = [arguments["padding"]] * 4
        border, kind = self.cv2.copyMakeBorder, self.cv2.BORDER_CONSTANT
        return lambda image, out: border(image, *edges, kind, dst=out)

    def _flip(self, arguments: dict[str, Any]) -> Step:
        flip = self.cv2.flip
        return lambda image, out: (
            flip(image, 1, dst=out) if self.chance.random() < 0.5 else image
        )

    def _resize(self, arguments: dict[str, Any]) -> Step:
        size = (arguments["size"], arguments["size"])
        return lambda image, out: self.cv2.resize(image, size, dst=out)

    def _resized_crop(self, arguments: dict[str, Any]) -> Step:
        resize = self._resize(arguments)

        def crop(image: Any, out: Any) -> Any:
            top, left, height, width = self._window(image)
            return resize(image[top : top + height, left : left + width], out)

        return crop

    def _window(self, image: Any) -> tuple[int, int, int, int]:
        """Draw a crop as torchvision's RandomResizedCrop does."""
        height, width = image.shape[:2]
        h, w = self._box(height, width, (0.08, 1.0), (3 / 4, 4 / 3))
        top = self.chance.integers(0, height - h + 1)
        return top, self.chance.integers(0, width - w + 1), h, w

    def _box(self, height: int, width: int, scale: Any, ratio: Any) -> tuple[int, int]:
        for _ in range(10):
            area = height * width * self.chance.uniform(*scale)
            shape = math.exp(self.chance.uniform(*map(math.log, ratio)))
            w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
            if 0 < w <= width and 0 < h <= height:
                return h, w
        return height, width

    def _rotation(self, arguments: dict[str, Any]) -> Step:
        cv2, most = self.cv2, arguments["degrees"]
        bilinear = arguments.get("interpolation") == "bilinear"
        flags = cv2.INTER_LINEAR if bilinear else cv2.INTER_NEAREST

        def rotate(image: Any, out: Any) -> Any:
            height, width = image.shape[:2]
            middle = ((width - 1) / 2, (height - 1) / 2)
            matrix = cv2.getRotationMatrix2D(
                middle, self.chance.uniform(-most, most), 1
            )
            return cv2.warpAffine(image, matrix, (width, height), dst=out, flags=flags)

        return rotate

    def _color_jitter(self, arguments: dict[str, Any]) -> Step:
        parts = [getattr(self, f"_{name}") for name in arguments]
        widths = list(arguments.values())

        def jitter(image: Any, out: Any) -> Any:
            for part in self.chance.permutation(len(parts)):
                width = widths[part]
                image = parts[part](image, self.chance.uniform(-width, width))
            return image

        return jitter

    def _table(self, factor: float, offset: float) -> Any:
        return np.clip(np.arange(256) * factor + offset, 0, 255).astype(np.uint8)

    def _brightness(self, image: Any, change: float) -> Any:
        return self.cv2.LUT(image, self._table(1 + change, 0))

    def _contrast(self, image: Any, change: float) -> Any:
        mean = self.cv2.mean(self.cv2.cvtColor(image, self.cv2.COLOR_RGB2GRAY))[0]
        return self.cv2.LUT(image, self._table(1 + change, -change * mean))

    def _saturation(self, image: Any, change: float) -> Any:
        cv2 = self.cv2
        grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
        grey = cv2.cvtColor(grey, cv2.COLOR_GRAY2RGB)
        return cv2.addWeighted(image, 1 + change, grey, -change, 0)

    def _hue(self, image: Any, change: float) -> Any:
        cv2 = self.cv2
        hsv = cv2.cvtColor(image, cv2.COLOR_RGB2HSV)
        same = np.arange(256, dtype=np.uint8)
        turned = ((np.arange(256) + round(180 * change)) % 180).astype(np.uint8)
        table = np.stack([turned, same, same], axis=-1)[None]
        return cv2.cvtColor(cv2.LUT(hsv, table), cv2.COLOR_HSV2RGB)

    def _noise(self, arguments: dict[str, Any]) -> Step:
        cv2, sigma = self.cv2, (arguments["sigma"],) * 3

        def add(image: Any, out: Any) -> Any:
            made = np.empty_like(image) if out is None else out
            cv2.randn(made, (0.0, 0.0, 0.0), sigma)
            cv2.add(image, made, made)
            flat = made.reshape(made.shape[0], -1)
            cv2.max(flat, 0.0, flat)
            cv2.min(flat, 1.0, flat)
            return made

        return add

    def _blur(self, arguments: dict[str, Any]) -> Step:
        kernel, sigma = (arguments["kernel_size"],) * 2, arguments["sigma"]
        return lambda image, out: self.cv2.GaussianBlur(
            image, kernel, self.chance.uniform(*sigma), dst=out
        )

    def _erasing(self, arguments: dict[str, Any]) -> Step:
        def erase(image: Any, out: Any) -> Any:
            made = np.empty_like(image) if out is None else out
            np.copyto(made, image)
            if self.chance.random() < 0.5:
                h, w = self._box(*image.shape[:2], (0.02, 0.33), (0.3, 3.3))
                top = self.chance.integers(0, image.shape[0] - h + 1)
                left = self.chance.integers(0, image.shape[1] - w + 1)
                made[top : top + h, left : left + w] = 0
            return made

        return erase

    def _partner(self, weight: float) -> Any:
        """Mix the labels, and return the image to mix with: the one before."""
        other = self.first + (self.row - 1) % self.batch
        row = self.one_hot[self.row]
        row[:] = 0
        row[self.labels[self.first + self.row]] += weight
        row[self.labels[other]] += 1 - weight
        return self.images[other]

    def _mix_up(self, arguments: dict[str, Any]) -> Step:
        def mix(image: Any, out: Any) -> Any:
            weight = self.chance.beta(1.0, 1.0)
            other = self._partner(weight)
            return self.cv2.addWeighted(image, weight, other, 1 - weight, 0, dst=out)

        return mix

    def _cut_mix(self, arguments: dict[str, Any]) -> Step:
        def cut(image: Any, out: Any) -> Any:
            height, width = image.shape[:2]
            share = math.sqrt(1 - self.chance.beta(1.0, 1.0))
            h, w = round(height * share / 2), round(width * share / 2)
            y, x = self.chance.integers(0, height), self.chance.integers(0, width)
            rows = slice(max(0, y - h), min(height, y + h))
            columns = slice(max(0, x - w), min(width, x + w))
            area = (rows.stop - rows.start) * (columns.stop - columns.start)
            other = self._partner(1 - area / (height * width))
            made = np.empty_like(image) if out is None else out
            np.copyto(made, image)
            np.copyto(made[rows, columns], other[rows, columns])
            return made

        return cut
