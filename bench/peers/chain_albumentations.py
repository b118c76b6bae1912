"""albumentations, image by image, as a DataLoader does it."""

from __future__ import annotations

from typing import Any

import numpy as np

from peers.chain_images import Chained


class Images(Chained):
    """`Compose` on each image; channels are put first by its `ToTensorV2`."""

    packages = ("albumentations", "cv2", "torch")
    layout = "HWC"
    operations = frozenset(
        {
            "ColorJitter",
            "GaussianBlur",
            "GaussianNoise",
            "Normalize",
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
        Chained.guarantees[4],
    )

    def open(self) -> None:
        import albumentations
        import cv2
        import torch

        cv2.setNumThreads(0)
        torch.set_num_threads(self.settings["threads"])
        steps = [step for each in self.chain for step in self._steps(*each)]
        self.compose = albumentations.Compose(steps, seed=0)
        size = self.result["size"]
        image = (size, size, 3)
        if "ToChannelFirst" in dict(self.chain):
            image = (3, size, size)
        self.out = np.zeros((self.batch, *image), self.result["dtype"])

    def _steps(self, name: str, arguments: dict[str, Any]) -> list[Any]:
        """Return the operations that stand for one of torchvision's names."""
        import albumentations as a
        import cv2
        from albumentations.pytorch import ToTensorV2

        size = arguments.get("size")
        if name == "RandomCrop":
            pad = arguments.get("padding")
            border = [a.Pad(pad, border_mode=cv2.BORDER_REFLECT_101)] if pad else []
            return [*border, a.RandomCrop(size, size)]
        if name == "ColorJitter":
            ranges = {key: (1 - x, 1 + x) for key, x in arguments.items()}
            hue = arguments.get("hue", 0)
            return [a.ColorJitter(**{**ranges, "hue": (-hue, hue)}, p=1)]
        if name == "RandomRotation":
            mode = cv2.INTER_LINEAR if "interpolation" in arguments else None
            degrees = arguments["degrees"]
            return [
                a.Rotate(
                    (-degrees, degrees),
                    interpolation=cv2.INTER_NEAREST if mode is None else mode,
                    border_mode=cv2.BORDER_CONSTANT,
                    p=1,
                )
            ]
        if name == "GaussianNoise":
            sigma = arguments["sigma"]
            return [a.GaussNoise((sigma, sigma), p=1)]
        if name == "GaussianBlur":
            kernel = arguments["kernel_size"]
            return [a.GaussianBlur((kernel, kernel), tuple(arguments["sigma"]), p=1)]
        if name == "ToDtype":
            return []  # by `Normalize`
        made = {
            "RandomHorizontalFlip": lambda: a.HorizontalFlip(p=0.5),
            "RandomResizedCrop": lambda: a.RandomResizedCrop((size, size)),
            "Resize": lambda: a.Resize(size, size),
            "RandomErasing": lambda: a.Erasing(p=0.5),
            "Normalize": lambda: a.Normalize(arguments["mean"], arguments["std"]),
            "ToChannelFirst": ToTensorV2,
        }
        return [made[name]()]

    def make(self, first: int) -> Any:
        for row, image in enumerate(self.images[first : first + self.batch]):
            self.out[row] = self.compose(image=image)["image"]
        return self.out
