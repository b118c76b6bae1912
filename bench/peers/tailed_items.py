"""Items of different cost, from two workers: each run is an epoch of `items`."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

_EPOCHS = 64  # of different items; then they come again


class Items:
    """A map-style dataset of `_EPOCHS` epochs; item `epoch * items + i` returns i."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.count = int(settings["items"])
        number = self.count // int(settings["every"])
        self.long = [
            frozenset(random.Random(epoch).sample(range(self.count), number))
            for epoch in range(_EPOCHS)
        ]

    def __len__(self) -> int:
        return self.count * _EPOCHS

    def __getitem__(self, index: int) -> Any:
        epoch, item = divmod(int(index), self.count)
        times = self.settings["times"] if item in self.long[epoch] else 1
        self.take(self.settings["seconds"] * times)
        return np.int64(item)

    def take(self, seconds: float) -> None:
        """Wait for so long, or compute for so long a time of this thread."""
        if not self.settings["burn"]:
            time.sleep(seconds)
            return
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            sum(range(1000))


class Epochs:
    """A sampler that yields the indices of another epoch with each `iter`."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.count = int(settings["items"])
        self.epoch = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        first = self.epoch % _EPOCHS * self.count
        self.epoch += 1
        return iter(range(first, first + self.count))


class _Loading(ABC):
    """Takes the items of an epoch."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.data = Items(settings)
        self.sampler = Epochs(settings)
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Make the loader."""

    @abstractmethod
    def batches(self) -> Iterator[Any]:
        """Begin an epoch."""

    def warm_up(self) -> None:
        served = np.concatenate([np.asarray(batch) for batch in self.batches()])
        assert sorted(served.tolist()) == list(range(self.data.count))

    def run(self) -> int:
        return sum(len(batch) for batch in self.batches())


class Work(_Loading):
    """Every `workers`-th of the long and of the other items, in this process."""

    packages = ("numpy",)
    guarantees = (("order", "none"), ("batch", "none"))

    def prepare(self) -> None:
        pass

    def batches(self) -> Iterator[Any]:
        return iter(())

    def warm_up(self) -> None:
        pass

    def run(self) -> int:
        first = next(iter(self.sampler))
        long = self.data.long[first // self.data.count]
        items = sorted(range(self.data.count), key=lambda item: item in long)
        for item in items[:: self.settings["workers"]]:
            self.data[first + item]
        return self.data.count


class Arriving(_Loading):
    """Each example once, shuffled over the window."""

    packages = ("numpy", "echobuf")
    in_order = False
    guarantees = (
        ("exact use", "once"),
        ("shuffled", "passes over the window"),
        ("order", "of arrival, then shuffled"),
        ("resumes", "exactly"),
    )

    def prepare(self) -> None:
        import echobuf

        self.loader = echobuf.EchoLoader(
            self.data,
            sampler=self.sampler,
            num_workers=self.settings["workers"],
            in_order=self.in_order,
            batch_size=self.settings["batch"],
            window=8 * self.settings["batch"],
            factor=1,
        )

    def batches(self) -> Iterator[Any]:
        return iter(self.loader)

    def close(self) -> None:
        self.loader.close()


class Ordered(Arriving):
    """The same, in the sampler's order."""

    in_order = True
    guarantees = (
        *Arriving.guarantees[:2],
        ("order", "the sampler's, then shuffled"),
        Arriving.guarantees[3],
    )


class TorchOrdered(_Loading):
    """A DataLoader's workers, which stay."""

    packages = ("torch",)
    in_order = True
    guarantees = (
        ("exact use", "once"),
        ("shuffled", "no"),
        ("order", "the sampler's"),
        ("resumes", "with torchdata's StatefulDataLoader"),
    )

    def prepare(self) -> None:
        from torch.utils.data import DataLoader

        loader: Any = DataLoader(
            self.data,  # type: ignore[arg-type]
            sampler=self.sampler,  # type: ignore[arg-type]
            batch_size=self.settings["batch"],
            num_workers=self.settings["workers"],
            in_order=self.in_order,
            persistent_workers=True,
            multiprocessing_context="spawn",
        )
        self.loader = loader

    def batches(self) -> Iterator[Any]:
        return iter(self.loader)

    def close(self) -> None:
        del self.loader


class TorchArriving(TorchOrdered):
    """The same; a batch that takes long holds up no other."""

    in_order = False
    guarantees = (
        *TorchOrdered.guarantees[:2],
        ("order", "of batches as they arrive"),
        ("resumes", "no"),
    )


class Spdl(_Loading):
    """SPDL's pipeline: threads of this process, a pipeline an epoch."""

    packages = ("spdl",)
    guarantees = (
        ("exact use", "once"),
        ("shuffled", "no"),
        ("order", "of arrival"),
        ("resumes", "no"),
    )

    def prepare(self) -> None:
        pass

    def batches(self) -> Iterator[Any]:
        from spdl.pipeline import PipelineBuilder

        workers = self.settings["workers"]
        pipeline = (
            PipelineBuilder()
            .add_source(list(self.sampler))
            .pipe(self.data.__getitem__, concurrency=workers, output_order="completion")
            .aggregate(self.settings["batch"])
            .add_sink(8)
            .build(num_threads=workers)
        )
        with pipeline.auto_stop():
            yield from pipeline.get_iterator(timeout=60)


class Grain(_Loading):
    """grain's threads, in order."""

    packages = ("grain", "numpy")
    guarantees = (
        ("exact use", "once"),
        ("shuffled", "no"),
        ("order", "the sampler's"),
        ("resumes", "exactly"),
    )

    def prepare(self) -> None:
        import grain

        self.grain = grain

    def batches(self) -> Iterator[Any]:
        options = self.grain.ReadOptions(num_threads=self.settings["workers"])
        return iter(
            self.grain.MapDataset.source(list(self.sampler))
            .map(self.data.__getitem__)
            .to_iter_dataset(options)
            .batch(self.settings["batch"])
        )
