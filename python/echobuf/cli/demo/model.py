"""The downstream: a small convolutional network and its training step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from echobuf.cli.demo.data import SIDE

__all__ = ["Model"]

_CHANNELS = (32, 64)
_HIDDEN = 128
_TEST_CHUNK = 64  # stays in the caches, which one large batch does not


class Model:
    """A network with its optimiser.

    Args:
        seed: Seeds the first weights.
        learning_rate: Of stochastic gradient descent.
        momentum: Of stochastic gradient descent.
        device: The device of the computation.
        width: Width of the layers, relative to those of the demo.
    """

    def __init__(
        self,
        seed: int,
        learning_rate: float,
        momentum: float,
        device: str = "cpu",
        width: int = 1,
    ) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._network = _network(width).to(device)
        self._on_gpu = torch.device(device).type == "cuda"
        self._optimiser = torch.optim.SGD(
            self._network.parameters(), lr=learning_rate, momentum=momentum
        )

    def step(self, images: Tensor, labels: Tensor) -> None:
        """Train on one batch: `uint8[n, SIDE, SIDE]` with `int64[n]`."""
        self._optimiser.zero_grad()
        scores = self._network(_normalised(images))
        nn.functional.cross_entropy(scores, labels).backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()

    def wait(self) -> None:
        """Wait until the device has done all steps so far."""
        if self._on_gpu:
            torch.cuda.synchronize()

    @torch.inference_mode()
    def accuracy(self, images: Tensor, labels: Tensor) -> float:
        """Return the share of images that the network classifies correctly."""
        right = 0
        for begin in range(0, len(labels), _TEST_CHUNK):
            chunk = slice(begin, begin + _TEST_CHUNK)
            guesses = self._network(_normalised(images[chunk])).argmax(1)
            right += int((guesses == labels[chunk]).sum())
        return right / len(labels)


def _normalised(images: Tensor) -> Tensor:
    return images.unsqueeze(1).float().div_(255.0).sub_(0.3)


def _network(width: int) -> nn.Module:
    first, second, hidden = (width * size for size in (*_CHANNELS, _HIDDEN))
    side = SIDE // 4
    return nn.Sequential(
        *(nn.Conv2d(1, first, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(first, second, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(second, second, 3, padding=1), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(side * side * second, hidden), nn.ReLU()),
        nn.Linear(hidden, 10),
    )
