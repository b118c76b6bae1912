"""End to end, as people train: ResNet-50 in bf16 on JPEG files that workers decode.

Files of 500x375 are decoded by Pillow in the workers of a DataLoader, in batches of
256. The DataLoader alone also cuts and mirrors them in its workers. Around the same
DataLoader, which then decodes only, echobuf holds the window and augments on the GPU,
with a factor that it finds itself. The limit is training on one batch that stays on
the GPU.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import echobuf
from ask import Candidate, Question, Settings
from echobuf import transforms as t
from place import Place
from script import main

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Files:
    """A dataset of JPEG files; each is read again and again under other indices.

    Args:
        settings: `files`, how many differ; `examples`, the length; `height`, `width`.
    """

    def __init__(self, settings: Settings) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._examples = settings["examples"]
        shape = settings["height"], settings["width"]
        rng = np.random.default_rng(0)
        image_of = _pillow().fromarray
        self._paths = []
        for number in range(settings["files"]):
            # Blocks of colour and some noise: as large as photographs when compressed.
            coarse = rng.integers(0, 256, (-(-shape[0] // 8), -(-shape[1] // 8), 3))
            fine = coarse.repeat(8, 0).repeat(8, 1)[: shape[0], : shape[1]]
            noisy = np.clip(fine + rng.normal(0, 12, fine.shape), 0, 255)
            path = Path(self._folder.name) / f"{number}.jpg"
            image_of(noisy.astype(np.uint8)).save(path, quality=90)
            self._paths.append(path)

    def __len__(self) -> int:
        return int(self._examples)

    def image(self, index: int) -> Any:
        """Return the decoded image, of Pillow."""
        with _pillow().open(self._paths[index % len(self._paths)]) as image:
            return image.convert("RGB")

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        label = np.int64(index % len(self._paths) % 1000)
        return {"image": np.array(self.image(index)), "label": label}

    def close(self) -> None:
        """Delete the files."""
        self._folder.cleanup()


class Cut:
    """The same files, each cut at random, resized and mirrored in the worker."""

    def __init__(self, files: Files, size: int) -> None:
        self._files, self._size = files, size

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> dict[str, Any]:
        image = self._files.image(index)
        rng = np.random.default_rng()
        area = image.width * image.height * rng.uniform(0.08, 1)
        aspect = np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
        width = min(image.width, round((area * aspect) ** 0.5))
        height = min(image.height, round((area / aspect) ** 0.5))
        left = rng.integers(image.width - width + 1)
        top = rng.integers(image.height - height + 1)
        box = (left, top, left + width, top + height)
        cut = np.array(image.resize((self._size, self._size), box=box))
        if rng.random() < 0.5:
            cut = cut[:, ::-1].copy()
        return {"image": cut, "label": np.int64(index % 1000)}


class Training(ABC):
    """Steps of the network on batches that `batches` yields without end."""

    def __init__(self, place: Place, settings: Settings) -> None:
        self.place, self.settings = place, settings
        self.files = place.once("files", lambda: Files(settings))
        self.network = place.once("resnet", lambda: network_of(place))
        self._batches = self.batches()

    @abstractmethod
    def batches(self) -> Iterator[dict[str, Any]]:
        """Yield batches: images and labels on the device."""

    def begin(self) -> None:
        """Use up, untimed, what was made ahead while others were measured."""
        self._train(self.settings["warm"])

    def run(self) -> int:
        self._train(self.settings["steps"])
        return int(self.settings["steps"] * self.settings["batch"])

    def _train(self, steps: int) -> None:
        for _ in range(steps):
            self.network.step(**next(self._batches))
        self.place.sync()

    def loader(self, dataset: Any) -> Any:
        """Return a DataLoader over `dataset`; without torch, a list of its batches."""
        batch = self.settings["batch"]
        if self.place.simulated:
            return Batches(dataset, batch)
        return self.place.torch.utils.data.DataLoader(
            dataset,
            batch_size=batch,
            shuffle=True,
            drop_last=True,
            pin_memory=isinstance(
                dataset, Cut
            ),  # echobuf takes batches from any memory
            num_workers=self.settings["workers"],
            persistent_workers=True,
        )

    def close(self) -> None:
        self._batches.close()  # type: ignore[attr-defined]  # a generator


class Batches:
    """Stands in for a DataLoader on the simulated driver."""

    def __init__(self, dataset: Any, batch: int) -> None:
        self._dataset, self._batch = dataset, batch

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for start in range(0, len(self._dataset) - self._batch + 1, self._batch):
            items = [self._dataset[start + i] for i in range(self._batch)]
            yield {name: np.stack([i[name] for i in items]) for name in items[0]}


class Alone(Training):
    """The DataLoader alone."""

    def batches(self) -> Iterator[dict[str, Any]]:
        loader = self.loader(Cut(self.files, self.settings["size"]))
        while True:
            for batch in loader:
                yield {name: self.network.moved(leaf) for name, leaf in batch.items()}


class Echoed(Training):
    """echobuf around the DataLoader, window and augmentation on the device."""

    def batches(self) -> Iterator[dict[str, Any]]:
        package = echobuf
        if not self.place.simulated:
            package = importlib.import_module("echobuf.torch")
        with package.EchoLoader(
            self.loader(self.files),
            window=self.settings["window"],
            batch_size=self.settings["batch"],
            batched=True,
            factor="auto",
            device="cuda",
            transform={"image": self._chain()},
        ) as self._echoes:
            while True:
                yield from self._echoes

    def _chain(self) -> list[Any]:
        return [
            t.RandomResizedCrop(self.settings["size"]),
            t.RandomHorizontalFlip(),
            t.ToDtype(np.float32, scale=True),
            t.Normalize(_MEAN, _STD),
            t.ToDtype("bfloat16"),
        ]

    def begin(self) -> None:
        super().begin()
        self._before = self._echoes.stats()

    def facts(self) -> dict[str, Any]:
        before, after = self._before, self._echoes.stats()
        fresh = max(1, after.fresh - before.fresh)
        return {"effective_factor_of_last_run": (after.served - before.served) / fresh}


class Resident(Training):
    """Steps on one batch that stays on the device."""

    def batches(self) -> Iterator[dict[str, Any]]:
        dataset = Cut(self.files, self.settings["size"])
        batch = next(iter(Batches(dataset, self.settings["batch"])))
        there = {
            n: self.network.tensor(self.place.resident(a)) for n, a in batch.items()
        }
        while True:
            yield there


class ResNet:
    """torchvision's ResNet-50, channels_last, SGD with momentum, bf16 by autocast."""

    def __init__(self, place: Place) -> None:
        torch = self.torch = place.torch
        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = True
        model = importlib.import_module("torchvision.models").resnet50().cuda()
        self.model = model.to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=1e-3, momentum=0.9, foreach=True
        )
        self._mean = torch.tensor(_MEAN, device="cuda").mul_(255)
        self._std = torch.tensor(_STD, device="cuda").mul_(255)

    def step(self, image: Any, label: Any) -> None:
        """Queue training on one batch, [batch, height, width, 3], without waiting."""
        torch = self.torch
        if image.dtype == torch.uint8:
            image = (image - self._mean).div_(self._std).to(torch.bfloat16)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            # Channels that lie last in memory, as the model wants them, without a copy.
            scores = self.model(image.permute(0, 3, 1, 2))
            loss = torch.nn.functional.cross_entropy(scores, label)
        loss.backward()
        self.optimizer.step()

    def moved(self, leaf: Any) -> Any:
        """Queue a copy of a leaf of the DataLoader, from pinned memory."""
        return leaf.to("cuda", non_blocking=True)

    def tensor(self, leaf: Any) -> Any:
        """Return an array on the device as a tensor."""
        return self.torch.as_tensor(leaf, device="cuda")


class NoResNet:
    """Stands in on the simulated driver, where torch has no device."""

    def step(self, image: Any, label: Any) -> None:
        if image.ndim != 4 or image.shape[3] != 3 or len(image) != len(label):
            raise AssertionError(f"images {image.shape}, {len(label)} labels")

    def moved(self, leaf: Any) -> Any:
        return leaf

    def tensor(self, leaf: Any) -> Any:
        return leaf


def network_of(place: Place) -> Any:
    """Return the network, which all candidates share."""
    return NoResNet() if place.simulated else ResNet(place)


def _pillow() -> Any:
    return importlib.import_module("PIL.Image")


def question(workers: int) -> Question:
    """Ask for a number of workers."""
    return Question(
        name=f"gpu_resnet_{workers}",
        aim="0.98 of one resident batch, where the DataLoader has R <= 8",
        unit="image",
        reference="DataLoader alone",
        candidates=(
            Candidate("DataLoader alone", Alone),
            Candidate("echobuf around the DataLoader", Echoed),
            Candidate("one resident batch", Resident),
        ),
        clock="wall",
        settings={
            **{"files": 1024, "examples": 100_000, "height": 375, "width": 500},
            **{"batch": 256, "size": 224, "window": 8192, "workers": workers},
            **{"steps": 40, "warm": 40},
        },
        # As many batches a window, and crops of the same share of an image.
        tiny={
            **{"files": 16, "examples": 192, "height": 30, "width": 40},
            **{"batch": 2, "size": 18, "window": 64, "steps": 10, "warm": 10},
        },
        rounds=5,
        limit_s=60,
    )


QUESTIONS = tuple(question(workers) for workers in (4, 14))

if __name__ == "__main__":
    sys.exit(main(__doc__, QUESTIONS))
