"""Images: handwritten digits, turned, scaled and shifted at random.

The 1,797 digits of scikit-learn and the distortion of `echobuf demo`, 600 of them held
out and distorted once; a network of two convolutions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import Tensor, nn

from echobuf.cli.demo.data import distortion, enlarge
from echobuf.transforms import RandomHorizontalFlip
from workloads.workload import Leaves, Workload

__all__ = ["Images", "Mirrored"]

_HELD_OUT = 600
_SPLIT_SEED = 1234
_CHANNELS = (16, 32)
_HIDDEN = 64
_MOMENTUM = 0.9
_CHUNK = 100  # of those held out: stays in the caches


class Images(Workload):
    """See the top of this file."""

    name = "images"
    measure = "share of held-out digits read wrongly"
    target = 0.06
    rates = range(-9, -4)  # 0.016 ... 0.1
    most_fresh = 60_000

    def __init__(self) -> None:
        digits = load_digits()
        chance = np.random.default_rng(_SPLIT_SEED)
        order = chance.permutation(len(digits.target))
        grey = (digits.images[order] * 15).astype(np.uint8)
        images = np.stack([enlarge(Image.fromarray(one), chance) for one in grey])
        labels = digits.target[order].astype(np.int64)
        self._records = images[_HELD_OUT:], labels[_HELD_OUT:]
        held_out = images[:_HELD_OUT], labels[:_HELD_OUT]
        self._held_out = self.augmented(held_out, _SPLIT_SEED)

    @property
    def records(self) -> Leaves:
        """Return images `uint8[n, 16, 16]` and labels."""
        return self._records

    @property
    def transform(self) -> Mapping[int, Any]:
        """Return the demo's distortion."""
        return {0: [distortion()]}

    @property
    def about(self) -> dict[str, Any]:
        """Return the examples to train on, and those held out."""
        return {"records": len(self._records[0]), "held_out": _HELD_OUT}

    def learner(self, seed: int, rate: float, device: str, width: int) -> _Reader:
        """Return a network trained by stochastic gradient descent with momentum."""
        return _Reader(self._held_out, seed, rate, device, width)


class Mirrored(Images):
    """Digits that are mirrored left to right at random, too, those held out likewise.

    Only the mirroring alternates.
    """

    name = "mirrored"
    target = 0.10

    @property
    def transform(self) -> Mapping[int, Any]:
        """Return the demo's distortion and a flip."""
        return {0: [distortion(), RandomHorizontalFlip()]}

    @property
    def alternating(self) -> Mapping[int, Any]:
        """Return the same with a flip that alternates."""
        return {0: [distortion(), RandomHorizontalFlip(alternate=True)]}


class _Reader:
    def __init__(
        self, held_out: Leaves, seed: int, rate: float, device: str, width: int
    ) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._network = _network(width).to(device)
        self._optimiser = torch.optim.SGD(
            self._network.parameters(), lr=rate, momentum=_MOMENTUM
        )
        images, labels = (torch.from_numpy(leaf).to(device) for leaf in held_out)
        self._images, self._labels = images, labels

    def step(self, images: Tensor, labels: Tensor) -> None:
        self._optimiser.zero_grad()
        scores = self._network(_normalised(images))
        nn.functional.cross_entropy(scores, labels).backward()
        self._optimiser.step()

    @torch.inference_mode()
    def error(self) -> float:
        chunks = zip(
            self._images.split(_CHUNK), self._labels.split(_CHUNK), strict=True
        )
        wrong = torch.zeros((), device=self._labels.device)
        for images, labels in chunks:
            guesses = self._network(_normalised(images)).argmax(1)
            wrong += (guesses != labels).sum()
        return float(wrong) / len(self._labels)


def _normalised(images: Tensor) -> Tensor:
    return images.unsqueeze(1).float().div_(255.0).sub_(0.3)


def _network(width: int) -> nn.Module:
    first, second, hidden = (width * size for size in (*_CHANNELS, _HIDDEN))
    return nn.Sequential(
        *(nn.Conv2d(1, first, 5, stride=2, padding=2), nn.ReLU()),
        *(nn.Conv2d(first, second, 3, stride=2, padding=1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(16 * second, hidden), nn.ReLU()),
        nn.Linear(hidden, 10),
    )
