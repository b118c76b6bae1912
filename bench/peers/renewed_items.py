"""Images that are kept for some epochs and then made anew, by four libraries.

As a program, without the harness: epochs of one library, and what each has made.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

SHAPE = (3, 224, 224)
LIFETIME = 4  # epochs


class Items(ABC):
    """The images of a library.

    Attributes:
        made: how many images were made.
        read: returns an image, by its index.
    """

    read: Callable[[int], Any]

    packages: tuple[str, ...] = ("torch", "numpy")
    guarantees: tuple[tuple[str, str], ...] = ()

    def __init__(self, count: int, folder: Path) -> None:
        torch.set_num_threads(1)
        self.count = count
        self.made = 0
        self._base = torch.randint(0, 256, SHAPE, dtype=torch.uint8)
        self.open(folder)

    def make(self, index: int, seed: int) -> dict[str, Any]:
        """Make an image, in little time: what keeping it takes is the question."""
        self.made += 1
        return {"image": self._base ^ seed % 256, "label": index}

    @abstractmethod
    def open(self, folder: Path) -> None:
        """Open the cache, in a folder if it needs one; set `read`."""

    @abstractmethod
    def begin(self, epoch: int) -> None:
        """Begin an epoch."""

    def memory(self) -> int:
        """Return the bytes of images kept in memory."""
        return 0


class Echobuf(Items):
    """`CachedDataset` with `renew`."""

    packages = ("echobuf", "torch", "numpy")
    guarantees = (
        ("renewed", "each item every 4 epochs, staggered"),
        ("kept in", "files, within `max_bytes`"),
        ("checked", "checksum at each access"),
    )

    def place(self, folder: Path) -> tuple[int, dict[str, Any]]:
        """Return how many bytes there may be, and where."""
        return 10**10, {"directory": folder, "identity": "bench"}

    def open(self, folder: Path) -> None:
        from echobuf.cache import CachedDataset, get_renewal

        make = self.make

        class Images:
            def __len__(self) -> int:
                return count

            def __getitem__(self, index: int) -> Any:
                renewal = get_renewal()
                assert renewal is not None
                return make(index, renewal.seed)

        count = self.count
        room, place = self.place(folder)
        self._cached = CachedDataset(Images(), room, **place, renew=LIFETIME)
        self.read = self._cached.__getitem__

    def begin(self, epoch: int) -> None:
        self._cached.set_epoch(epoch)


class EchobufMemory(Echobuf):
    """The same in memory."""

    guarantees = (*Echobuf.guarantees[::2], ("kept in", "memory of all workers"))

    def place(self, folder: Path) -> tuple[int, dict[str, Any]]:
        return self.count * 151_000, {}

    def memory(self) -> int:
        return int(self._cached.stats().bytes)


class Reuseloader(Items):
    """`ReuseDataset`."""

    packages = ("reuseloader", "torch", "numpy")
    guarantees = (
        ("renewed", "each item every 4 epochs, staggered"),
        ("kept in", "files, without a limit"),
        ("checked", "nothing: torch.load does not look at the archive's CRC-32"),
    )

    def open(self, folder: Path) -> None:
        from reuseloader import ReuseDataset, ReusePolicy

        self._dataset = ReuseDataset(
            lambda key: self.make(key.index, key.seed),
            self.count,
            folder,
            ReusePolicy(LIFETIME),
        )
        self.read = self._dataset.__getitem__

    def begin(self, epoch: int) -> None:
        self._dataset.set_epoch(epoch)


class Stocaching(Items):
    """`SharedCache`, as its README has it."""

    packages = ("stocaching", "torch", "numpy")
    guarantees = (
        ("renewed", "nothing"),
        ("kept in", "shared memory; the label is made again"),
        ("checked", "nothing: a view, which must not be changed"),
    )

    def open(self, folder: Path) -> None:
        from stocaching import SharedCache

        self._cache = SharedCache(1, self.count, SHAPE, torch.uint8)

    def begin(self, epoch: int) -> None:
        pass

    def read(self, index: int) -> Any:
        image = self._cache.get_slot(index)
        if image is None:
            image = self.make(index, index)["image"]
            self._cache.set_slot(index, image)
        return {"image": image, "label": index}

    def memory(self) -> int:
        return int(self._cache.array.nbytes)


class SmartCache(Items):
    """MONAI's `SmartCacheDataset` of twice as many images, of which it keeps half."""

    packages = ("monai", "torch", "numpy")
    guarantees = (
        ("renewed", "a quarter of the images, by others of the data"),
        ("kept in", "memory of the process"),
        ("checked", "nothing: the kept object itself, which must not be changed"),
        ("timed", "reads alone: a thread makes images between two epochs"),
    )

    def open(self, folder: Path) -> None:
        from monai.data import SmartCacheDataset
        from monai.transforms import Transform

        make = self.make

        class Make(Transform):  # a plain function would run at each access
            def __call__(self, index: int) -> Any:
                return make(index, index)

        self._dataset = SmartCacheDataset(
            list(range(2 * self.count)),
            Make(),
            replace_rate=1 / LIFETIME,
            cache_num=self.count,
            progress=False,
        )
        self._dataset.start()
        self._is_first = True

    def begin(self, epoch: int) -> None:
        if not self._is_first:
            self._dataset.update_cache()
        self._is_first = False

    def read(self, index: int) -> Any:
        return self._dataset[index]

    def memory(self) -> int:
        return self.count * SHAPE[0] * SHAPE[1] * SHAPE[2]


class Round:
    """Epochs for the harness: all images of one in a random order, one by one."""

    kind: type[Items]

    def __init__(self, settings: dict[str, Any]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="renew-")
        self._items = self.kind(settings["items"], Path(self._folder.name))
        self._renews = settings["renews"]
        self._epoch = 0

    def warm_up(self) -> None:
        """Pass the first epochs, and check the images of another one."""
        for _ in range(LIFETIME + 1):
            self.run(next_epoch=True)
        labels = {self._items.read(i)["label"] for i in range(self._items.count)}
        assert len(labels) == self._items.count

    def begin(self) -> None:
        self._order = torch.randperm(self._items.count).tolist()

    def run(self, *, next_epoch: bool | None = None) -> int:
        if self._renews if next_epoch is None else next_epoch:
            self._items.begin(self._epoch)
            self._epoch += 1
            if next_epoch:
                self.begin()
        read = self._items.read
        for index in self._order:
            read(index)
        return self._items.count

    def close(self) -> None:
        self._folder.cleanup()


KINDS: dict[str, type[Items]] = {
    kind.__name__: kind
    for kind in (Echobuf, EchobufMemory, Reuseloader, Stocaching, SmartCache)
}


def __getattr__(name: str) -> Any:
    """Return the class of a library for the harness: `EchobufRound`, ..."""
    kind = KINDS.get(name.removesuffix("Round"))
    if kind is None:
        raise AttributeError(name)
    own = {"kind": kind, "packages": kind.packages, "guarantees": kind.guarantees}
    return type(name, (Round,), own)


def epochs(items: Items, first: int, last: int, killed_in: int) -> Iterator[int]:
    """Yield how many images each epoch has made; be killed in the middle of one.

    What was made before the first epoch, by some, is counted with it.
    """
    before = 0
    for epoch in range(first, last):
        items.begin(epoch)
        for place, index in enumerate(torch.randperm(items.count).tolist()):
            if epoch == killed_in and place == items.count // 2:
                print(json.dumps({"killed": items.made - before}), flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            items.read(index)
        before, made = items.made, items.made - before
        yield made


def main() -> None:
    """Run epochs: LIBRARY COUNT FOLDER FIRST LAST KILLED_IN (-1: none)."""
    library, folder = sys.argv[1], Path(sys.argv[3])
    count, first, last, killed_in = map(int, (sys.argv[2], *sys.argv[4:]))
    items = KINDS[library](count, folder)
    made = list(epochs(items, first, last, killed_in))
    files = [path.stat() for path in folder.rglob("*") if path.is_file()]
    print(
        json.dumps(
            {
                "made": made,
                "disk_bytes": sum(512 * each.st_blocks for each in files),
                "memory_bytes": items.memory(),
            }
        ),
        flush=True,
    )
    os._exit(0)  # a thread of MONAI's never ends


if __name__ == "__main__":
    main()
