"""Peers that augment batches on the device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ask import Settings
from place import Place
from window import records_of


class _Tensors(ABC):
    """Records on the device as [records, channels, height, width], and an index."""

    def __init__(self, place: Place, settings: Settings) -> None:
        torch = self.torch = place.torch
        self.settings = settings
        self.batches = int(settings["batches"])
        images = records_of(place, settings)["image"]
        resident = place.once(
            f"resident {settings['fields']} {settings['records']}",
            lambda: {"image": place.resident(images)},
        )
        self.images = torch.from_dlpack(resident["image"]).permute(0, 3, 1, 2)
        order = torch.randperm(len(self.images), device="cuda")
        self.indices = order.split(settings["batch"])
        self.dtype = getattr(torch, settings["dtype"])
        self.augment = self.prepare()

    @abstractmethod
    def prepare(self) -> Any:
        """Return the module that augments a batch of bytes."""

    def check(self) -> None:
        self.run()
        size = self.settings["size"]
        assert self.last.shape == (self.settings["batch"], 3, size, size)
        assert self.last.dtype is self.dtype

    def run(self) -> int:
        for turn in range(self.batches):
            index = self.indices[turn % len(self.indices)]
            self.last = self.augment(self.images[index])
        return self.batches


class Torchvision(_Tensors):
    """torchvision.transforms.v2 on the batch: one crop and one flip for all of it."""

    def prepare(self) -> Any:
        from torchvision.transforms import v2

        cut = v2.RandomCrop if self.settings["cut"] == "crop" else v2.RandomResizedCrop
        return v2.Compose(
            [
                cut(self.settings["size"]),
                v2.RandomHorizontalFlip(),
                v2.ToDtype(self.torch.float32, scale=True),
                v2.Normalize(self.settings["mean"], self.settings["std"]),
                v2.ToDtype(self.dtype),
            ]
        )


class Kornia(_Tensors):
    """kornia.augmentation: each example by itself, in floats from the start."""

    def prepare(self) -> Any:
        from kornia import augmentation as k

        size = (self.settings["size"],) * 2
        crop = self.settings["cut"] == "crop"
        cut = k.RandomCrop(size) if crop else k.RandomResizedCrop(size)
        mean, std = self.settings["mean"], self.settings["std"]
        chain = k.AugmentationSequential(
            cut, k.RandomHorizontalFlip(), k.Normalize(mean, std), data_keys=["input"]
        )
        return lambda images: chain(images.to(self.torch.float32) / 255).to(self.dtype)


class Plain(_Tensors):
    """Plain torch: each example's crop and flip by indices, then numbers in place."""

    def prepare(self) -> Any:
        torch, size = self.torch, self.settings["size"]
        mean = torch.tensor(self.settings["mean"], device="cuda").view(1, 3, 1, 1)
        std = torch.tensor(self.settings["std"], device="cuda").view(1, 3, 1, 1)
        steps = torch.arange(size, device="cuda")
        spare = self.images.shape[2] - size + 1

        def augment(images: Any) -> Any:
            count = len(images)
            top, left = torch.randint(spare, (2, count, 1), device="cuda")
            flip = torch.rand(count, 1, device="cuda") < 0.5
            rows = top + steps
            columns = left + torch.where(flip, size - 1 - steps, steps)
            which = torch.arange(count, device="cuda").view(-1, 1, 1)
            cut = images.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None]]
            numbers = cut.permute(0, 3, 1, 2).to(torch.float32).div_(255)
            small = numbers.sub_(mean).div_(std).to(self.dtype)
            return small.contiguous()

        return augment
