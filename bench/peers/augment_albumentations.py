"""albumentations, image by image, as a DataLoader does it."""

from __future__ import annotations

from typing import Any

import numpy as np

from peers.augment_images import Augmenting


class Images(Augmenting):
    """`Compose` on each image; channels are put first by its `ToTensorV2`."""

    packages = ("albumentations", "cv2", "torch")

    def open(self) -> None:
        import albumentations
        import cv2
        import torch
        from albumentations.pytorch import ToTensorV2

        cv2.setNumThreads(0)
        torch.set_num_threads(self.settings["threads"])
        size = self.size
        cut = albumentations.RandomCrop(size, size)
        if self.settings["cut"] == "resized":
            cut = albumentations.RandomResizedCrop((size, size))
        self.chain = albumentations.Compose(
            [
                cut,
                albumentations.HorizontalFlip(p=0.5),
                albumentations.Normalize(self.settings["mean"], self.settings["std"]),
                ToTensorV2(),
            ]
        )
        self.out = np.zeros((self.batch, 3, size, size), np.float32)

    def make(self, first: int) -> Any:
        for row, image in enumerate(self.images[first : first + self.batch]):
            self.out[row] = self.chain(image=image)["image"]
        return self.out
