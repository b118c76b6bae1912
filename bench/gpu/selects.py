"""Peers that draw from records on a device: copies, and selections by an index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ask import Settings
from echobuf.cli.bench.records import check_batch
from place import Place
from window import records_of


class _OnDevice(ABC):
    """Records on the device, and arrays that are written again and again."""

    def __init__(self, place: Place, settings: Settings) -> None:
        self.place = place
        self.settings = settings
        self.batch, self.batches = settings["batch"], int(settings["batches"])
        self.records = records_of(place, settings)
        self.resident = place.once(
            f"resident {settings['fields']} {settings['records']}",
            lambda: {n: place.resident(a) for n, a in self.records.items()},
        )
        self.out = {
            name: place.empty((self.batch, *array.shape[1:]), array.dtype)
            for name, array in self.records.items()
        }
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Make the objects that last for all rounds."""

    def check(self) -> None:
        self.run()
        served = {n: self.place.to_host(leaf) for n, leaf in self.out.items()}
        check_batch(self.records, served, self.settings)

    def facts(self) -> dict[str, Any]:
        return {"bytes_per_unit": sum(leaf.nbytes for leaf in self.out.values())}

    @abstractmethod
    def run(self) -> int:
        """Draw the batches of a round, and return their number."""


class Copy(_OnDevice):
    """Records that lie one after the other, a batch further each time."""

    def prepare(self) -> None:
        self.at = 0

    def run(self) -> int:
        last = self.settings["records"] - self.batch
        for _ in range(self.batches):
            for name, out in self.out.items():
                self.place.copy(
                    out, self.resident[name][self.at : self.at + self.batch]
                )
            self.at = self.at + self.batch if self.at + self.batch <= last else 0
        return self.batches


class Torch(_OnDevice):
    """`torch.index_select(out=)`; with `"index": "resident"` the order is made before.

    Else `torch.randint` makes it for each batch, in the time.
    """

    def prepare(self) -> None:
        torch = self.torch = self.place.torch
        self.tensors = [
            (torch.from_dlpack(self.resident[n]), torch.from_dlpack(self.out[n]))
            for n in self.records
        ]
        count = self.settings["records"]
        order = torch.randperm(count, device="cuda")
        self.indices = order[: count // self.batch * self.batch].split(self.batch)

    def run(self) -> int:
        select, count = self.torch.index_select, self.settings["records"]
        resident = self.settings.get("index") == "resident"
        for turn in range(self.batches):
            if resident:
                index = self.indices[turn % len(self.indices)]
            else:
                index = self.torch.randint(count, (self.batch,), device="cuda")
            for tensor, out in self.tensors:
                select(tensor, 0, index, out=out)
        return self.batches


class Cupy(_OnDevice):
    """`cupy.take(out=)`, with a resident index or with one of CuPy's generators."""

    def prepare(self) -> None:
        cupy, count = self.place.cupy, self.settings["records"]
        order = cupy.random.permutation(count)
        self.generator = cupy.random.default_rng(0)
        self.indices = [
            order[start : start + self.batch]
            for start in range(0, count - self.batch + 1, self.batch)
        ]

    def run(self) -> int:
        cupy, count = self.place.cupy, self.settings["records"]
        resident = self.settings.get("index") == "resident"
        pairs: list[tuple[Any, Any]] = [
            (self.resident[name], out) for name, out in self.out.items()
        ]
        generator = self.settings.get("index") == "generator"
        for turn in range(self.batches):
            if resident:
                index = self.indices[turn % len(self.indices)]
            elif generator:
                index = self.generator.integers(0, count, self.batch)
            else:
                index = cupy.random.randint(0, count, self.batch)
            for array, out in pairs:
                cupy.take(array, index, axis=0, out=out)
        return self.batches
