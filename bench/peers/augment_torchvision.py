"""torchvision v2, on whole batches (one window for all of them) and on each image."""

from __future__ import annotations

from typing import Any

from peers.augment_images import Augmenting


class Batch(Augmenting):
    """Tensors [256, 3, 256, 256]: chance decides once for the whole batch."""

    packages = ("torch", "torchvision")

    def open(self) -> None:
        import torch
        from torchvision.transforms import v2

        torch.set_num_threads(self.settings["threads"])
        size = self.size
        cut = v2.RandomCrop(size)
        if self.settings["cut"] == "resized":
            cut = v2.RandomResizedCrop(size, antialias=True)
        self.chain = v2.Compose(
            [
                cut,
                v2.RandomHorizontalFlip(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize(self.settings["mean"], self.settings["std"]),
            ]
        )
        self.torch = torch
        tensors = torch.from_numpy(self.images).permute(0, 3, 1, 2)
        self.tensors = tensors.contiguous()

    def make(self, first: int) -> Any:
        return self.chain(self.tensors[first : first + self.batch])


class Images(Batch):
    """Each image by itself, as a DataLoader does it, then stacked."""

    def make(self, first: int) -> Any:
        images = self.tensors[first : first + self.batch]
        return self.torch.stack([self.chain(image) for image in images])
