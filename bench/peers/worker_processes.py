"""Images from two worker processes, in several ways: each run takes `images` of them.

The dataset does no work: it returns one of a few arrays that it has. All workers stay
from run to run, and are as far ahead as they may be when one begins.
"""

from __future__ import annotations

import itertools
import multiprocessing
from abc import ABC, abstractmethod
from collections.abc import Iterator
from multiprocessing import shared_memory
from typing import Any

import numpy as np

SHAPE = (224, 224, 3)
PREPARED = 16

_ONCE = (
    ("exact use", "once"),
    ("shuffled", "no"),
    ("duplicates in a batch", "none"),
)

_context = multiprocessing.get_context("spawn")


class Images:
    """A map-style dataset without an end."""

    def __init__(self, tensors: bool = False) -> None:
        rng = np.random.default_rng(0)
        arrays = rng.integers(0, 256, (PREPARED, *SHAPE), np.uint8)
        self.images: Any = list(arrays)
        if tensors:
            import torch

            self.images = [torch.from_numpy(array) for array in arrays]

    def __getitem__(self, index: int) -> Any:
        return self.images[index % PREPARED]


class Endless:
    """A sampler without an end."""

    def __iter__(self) -> Iterator[int]:
        return itertools.count()


class _Taking(ABC):
    """Takes images until there are enough."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.wanted = int(settings["images"])
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Start the producers."""

    @abstractmethod
    def take(self) -> int:
        """Take some records, and return their number."""

    def run(self) -> int:
        taken = 0
        while taken < self.wanted:
            taken += self.take()
        return taken


# ---- a bare ring: the bound


def _fill(name: str, slots: int, first: int, step: int, free: Any, full: Any) -> None:
    """Write slots `first`, `first` + `step`, ... of the ring, repeatedly."""
    dataset = Images()
    memory = shared_memory.SharedMemory(name)
    ring = np.ndarray((slots, *SHAPE), np.uint8, memory.buf)
    for number in itertools.count(first, step):
        free.acquire()
        np.copyto(ring[number % slots], dataset[number])
        full.release()


class BareRing(_Taking):
    """Shared memory and two semaphores; who reads only counts, and copies nothing."""

    packages = ("numpy",)
    guarantees = (*_ONCE, ("order", "as it comes"), ("batch", "none: counted"))

    def prepare(self) -> None:
        slots, workers = self.settings["window"], self.settings["workers"]
        bytes_ = slots * int(np.prod(SHAPE))
        self.memory = shared_memory.SharedMemory(create=True, size=bytes_)
        self.free, self.full = _context.Semaphore(slots), _context.Semaphore(0)
        self.processes = [
            _context.Process(
                target=_fill,
                args=(self.memory.name, slots, k, workers, self.free, self.full),
                daemon=True,
            )
            for k in range(workers)
        ]
        for process in self.processes:
            process.start()

    def take(self) -> int:
        self.full.acquire()
        self.free.release()
        return 1

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()
        del self.free, self.full, self.processes  # which gives their names back
        self.memory.close()
        self.memory.unlink()


# ---- echobuf


class Echobuf(_Taking):
    """Each example once, shuffled over the window, in batches."""

    packages = ("numpy", "echobuf")
    guarantees = (
        ("exact use", "once"),
        ("shuffled", "passes over the window"),
        ("duplicates in a batch", "none"),
        ("order", "the sampler's, then shuffled"),
        ("batch", "copied; the caller's"),
    )

    def prepare(self) -> None:
        import echobuf

        self.epoch = iter(
            echobuf.EchoLoader(
                Images(),
                sampler=Endless(),
                num_workers=self.settings["workers"],
                window=self.settings["window"],
                batch_size=self.settings["batch"],
                factor=1,
                prefetch=2,  # as DataLoader's workers have by default
                transform=self.transform(),
            )
        )

    def transform(self) -> Any:
        """Return the array made of an image when it is drawn."""
        return None

    def warm_up(self) -> None:
        known = {image.tobytes() for image in Images().images}
        assert all(image.tobytes() in known for image in next(self.epoch))

    def take(self) -> int:
        return len(next(self.epoch))

    def close(self) -> None:
        del self.epoch


class EchobufToTheRing(Echobuf):
    """The same, but of each image a few pixels are drawn: it arrives, and goes."""

    guarantees = (*Echobuf.guarantees[:-1], ("batch", "its middle, 8 by 8 pixels"))

    def transform(self) -> Any:
        from echobuf.transforms import CenterCrop

        return [CenterCrop(8)]

    def warm_up(self) -> None:
        middle = slice(108, 116)
        known = {image[middle, middle].tobytes() for image in Images().images}
        assert all(image.tobytes() in known for image in next(self.epoch))


# ---- torch


def _put(queue: Any, first: int, step: int) -> None:
    dataset = Images(tensors=True)
    for number in itertools.count(first, step):
        queue.put(dataset[number].clone())  # else it would be the same memory


class TorchQueue(_Taking):
    """`torch.multiprocessing.Queue`: each image is shared memory of its own."""

    packages = ("torch",)
    guarantees = (*_ONCE, ("order", "as it comes"), ("batch", "none: counted"))

    def prepare(self) -> None:
        import torch.multiprocessing

        context = torch.multiprocessing.get_context("spawn")
        self.queue = context.Queue(64)
        self.processes = [
            context.Process(
                target=_put, args=(self.queue, k, self.settings["workers"]), daemon=True
            )
            for k in range(self.settings["workers"])
        ]
        for process in self.processes:
            process.start()

    def take(self) -> int:
        self.queue.get()
        return 1

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()
        del self.queue, self.processes


class Workers(_Taking):
    """A DataLoader's."""

    packages = ("torch",)
    guarantees = (
        *_ONCE,
        ("order", "the sampler's"),
        ("batch", "the caller's, in shared memory"),
    )

    def prepare(self) -> None:
        from torch.utils.data import DataLoader

        loader: Any = DataLoader(
            Images(tensors=True),  # type: ignore[arg-type]
            sampler=Endless(),  # type: ignore[arg-type]
            batch_size=self.settings["batch"],
            num_workers=self.settings["workers"],
            multiprocessing_context="spawn",
        )
        self.epoch = iter(loader)

    def take(self) -> int:
        return len(next(self.epoch))

    def close(self) -> None:
        del self.epoch
