"""The training step of the end-to-end benchmarks: a convolutional network in bf16."""

from __future__ import annotations

from typing import Any

import numpy as np

from ask import Settings
from place import Place


class Network:
    """Nine convolutions, batch norm, SGD with momentum; uint8 images in, NHWC."""

    def __init__(self, place: Place) -> None:
        torch = self.torch = place.torch
        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = True
        layers: list[Any] = []
        width = 3
        for wide, stride in (
            (64, 2),
            (64, 1),
            (128, 2),
            (128, 1),
            (256, 2),
            (256, 1),
            (256, 1),
            (512, 2),
            (512, 1),
        ):
            layers += [
                torch.nn.Conv2d(width, wide, 3, stride, 1, bias=False),
                torch.nn.BatchNorm2d(wide),
                torch.nn.ReLU(inplace=True),
            ]
            width = wide
        layers += [
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(),
            torch.nn.Linear(width, 100),
        ]
        model = torch.nn.Sequential(*layers).cuda()
        self.model = model.to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=1e-3, momentum=0.9, foreach=True
        )

    def step(self, images: Any, labels: Any) -> None:
        """Queue training on one batch of tensors on the device, without waiting."""
        torch = self.torch
        inputs = images.permute(0, 3, 1, 2).to(torch.bfloat16).mul_(1 / 255)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(self.model(inputs), labels)
        loss.backward()
        self.optimizer.step()

    def tensor(self, leaf: Any) -> Any:
        """Return a leaf of an echobuf batch as a tensor, without copying or waiting."""
        return self.torch.as_tensor(leaf, device="cuda")


class NoNetwork:
    """Stands in on the simulated driver, where torch has no device."""

    def step(self, images: Any, labels: Any) -> None:
        if len(images) != len(labels):
            raise AssertionError(f"{len(images)} images, {len(labels)} labels")

    def tensor(self, leaf: Any) -> Any:
        return leaf


def network_of(place: Place) -> Any:
    """Return the network, which all candidates share, as its weights do not matter."""
    if place.simulated:
        return place.once("network", NoNetwork)
    return place.once("network", lambda: Network(place))


def images_of(place: Place, settings: Settings) -> dict[str, Any]:
    """Make upstream's examples on the host: noise, and labels with their number."""

    def make() -> dict[str, Any]:
        rng = np.random.default_rng(0)
        side, count = settings["side"], settings["records"]
        image = rng.integers(0, 256, (count, side, side, 3), np.uint8)
        return {"image": image, "label": np.arange(count, dtype=np.int64) % 100}

    return place.once(f"images {settings['records']} {settings['side']}", make)
