"""torchvision v2, on whole batches (one choice for all images) and on each image."""

from __future__ import annotations

from typing import Any

from peers.chain_images import Chained


class Batch(Chained):
    """Tensors [128, 3, 256, 256]: chance decides once for the whole batch."""

    packages = ("torch", "torchvision")
    layout = "CHW"
    operations = frozenset(
        {
            "AutoAugment",
            "ColorJitter",
            "CutMix",
            "GaussianBlur",
            "GaussianNoise",
            "MixUp",
            "Normalize",
            "Pad",
            "RandAugment",
            "RandomApply",
            "RandomCrop",
            "RandomErasing",
            "RandomGrayscale",
            "RandomHorizontalFlip",
            "RandomResizedCrop",
            "RandomRotation",
            "Resize",
            "ToChannelFirst",
            "ToDtype",
            "TrivialAugmentWide",
        }
    )
    dtypes = frozenset({"uint8", "float32", "float16", "bfloat16"})

    def open(self) -> None:
        import torch

        torch.set_num_threads(self.settings["threads"])
        torch.manual_seed(0)
        self.torch = torch
        self.tensors = torch.from_numpy(self.images)
        self.targets = torch.from_numpy(self.labels)
        self.steps = [self._step(*each) for each in self.chain if not _mixes(each)]
        self.mixes = [self._step(*each) for each in self.chain if _mixes(each)]

    def _step(self, name: str, arguments: dict[str, Any]) -> Any:
        from torchvision.transforms import InterpolationMode, v2

        arguments = dict(arguments)
        if name == "ToChannelFirst":
            return self._channels_first
        if "dtype" in arguments:
            arguments["dtype"] = getattr(self.torch, arguments["dtype"])
        if "interpolation" in arguments:
            mode = InterpolationMode(arguments["interpolation"])
            arguments["interpolation"] = mode
        if "transforms" in arguments:
            inner = [self._step(*each) for each in arguments["transforms"]]
            arguments["transforms"] = inner
        return getattr(v2, name)(**arguments)

    def _channels_first(self, images: Any) -> Any:
        if self.stored == "CHW":
            return images
        return images.movedim(-1, -3)

    def augment(self, images: Any) -> Any:
        """Return an image, or a batch, after the operations that need no partner."""
        for step in self.steps:
            images = step(images)
        return images

    def make(self, first: int) -> Any:
        return self._mix(self._all(first), first)

    def _all(self, first: int) -> Any:
        source = self.tensors[first : first + self.batch]
        if self.views > 1:
            return self.torch.cat([self.augment(source) for _ in range(self.views)])
        batch = self.augment(source)
        if not self.mixes and _memory_of(batch) == _memory_of(source):
            return batch.clone(memory_format=self.torch.contiguous_format)
        return batch.contiguous()

    def _mix(self, batch: Any, first: int) -> Any:
        for mix in self.mixes:
            batch, _ = mix(batch, self.targets[first : first + self.batch])
        return batch

    def to_numpy(self, batch: Any) -> tuple[Any, str]:
        if not batch.is_contiguous():
            raise AssertionError("the batch is not contiguous")
        return batch.float().numpy(), str(batch.dtype).removeprefix("torch.")


class Images(Batch):
    """Each image by itself, as a DataLoader does it, then stacked."""

    def _all(self, first: int) -> Any:
        images = self.tensors[first : first + self.batch]
        made = [self.augment(image) for _ in range(self.views) for image in images]
        return self.torch.stack(made)


def _mixes(operation: tuple[str, Any]) -> bool:
    return operation[0] in {"MixUp", "CutMix"}


def _memory_of(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())
