"""Echoing on the device beside echoing on the host, e = 5, at several batch sizes.

The network of `training.py`, with an upstream that is fast: what is left is what
feeding costs. On the host each echo crosses the bus: from echobuf's window in host
memory by way of pinned memory, and from a DataLoader with workers that repeats and
shuffles; both copy with `non_blocking=True`. On the device each example crosses once.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from ask import Candidate, Question, Settings
from echobuf import EchoBuffer, Field
from paced import Paced
from place import Place
from script import main
from training import SETTINGS, TINY, Echoing, Fed, Resident, Training


class HostWindow(Fed):
    """A window on the host; three pinned batches take turns."""

    def prepare(self) -> None:
        settings = self.settings
        self.buffer = EchoBuffer(
            {n: Field(a.shape[1:], a.dtype) for n, a in self.records.items()},
            batch_size=settings["batch"],
            window=settings["window"],
            factor=settings["factor"],
        )
        self.slots = [self._slot() for _ in range(3)]
        self.turn = 0
        self.upstream = Paced(self.records, settings["chunk"], self.buffer.put_batch)
        for _ in range(2 * settings["window"] // settings["batch"]):
            self.step()
        self.place.sync()
        self.upstream.pause()

    def _slot(self) -> tuple[dict[str, Any], dict[str, Any], Any]:
        arrays = {
            n: np.empty((self.batch, *a.shape[1:]), a.dtype)
            for n, a in self.records.items()
        }
        if self.place.simulated:
            return arrays, arrays, None
        torch = self.place.torch
        tensors = {n: torch.from_numpy(a).pin_memory() for n, a in arrays.items()}
        return {n: t.numpy() for n, t in tensors.items()}, tensors, torch.cuda.Event()

    def step(self) -> None:
        arrays, tensors, copied = self.slots[self.turn % len(self.slots)]
        self.turn += 1
        if copied is not None:
            copied.synchronize()
        self.buffer.next_batch(arrays, timeout=60)
        if copied is not None:
            tensors = {n: t.to("cuda", non_blocking=True) for n, t in tensors.items()}
            copied.record()
        self.network.step(tensors["image"], tensors["label"])

    def facts(self) -> dict[str, Any]:
        return {"bus_bytes_per_step": bytes_per_step(self.records, self.settings)}

    def close(self) -> None:
        self.upstream.go_on()
        self.buffer.__exit__(None, None, None)
        self.upstream.end()


def bytes_per_step(records: dict[str, Any], settings: Settings) -> int:
    """Return a step's bytes over the bus, if each echo crosses it."""
    return int(settings["batch"]) * sum(leaf[0].nbytes for leaf in records.values())


def echoes(count: int, window: int, factor: int) -> Iterator[int]:
    """Yield indices without end, each e times, from a shuffle buffer of a window."""
    choose, held, at = random.Random(0), [], 0
    while True:
        while len(held) < window:
            held += [at] * factor
            at = (at + 1) % count
        spot = choose.randrange(len(held))
        held[spot], held[-1] = held[-1], held[spot]
        yield held.pop()


class Images:
    """A dataset with random access."""

    def __init__(self, place: Place, records: dict[str, Any]) -> None:
        self.leaves = [place.torch.from_numpy(leaf) for leaf in records.values()]

    def __len__(self) -> int:
        return len(self.leaves[0])

    def __getitem__(self, index: int) -> list[Any]:
        return [leaf[index] for leaf in self.leaves]


class Echoes:
    """A sampler that ends never."""

    def __init__(self, settings: Settings) -> None:
        self.arguments = settings["records"], settings["window"], settings["factor"]

    def __iter__(self) -> Iterator[int]:
        return echoes(*self.arguments)


class Loader(Training):
    """A DataLoader: workers, pinned memory, each example repeated e times."""

    WORKERS, AHEAD = 8, 2

    def prepare(self) -> None:
        self.batches = iter(
            self.place.torch.utils.data.DataLoader(
                Images(self.place, self.records),
                batch_size=self.batch,
                sampler=Echoes(self.settings),
                num_workers=self.WORKERS,
                prefetch_factor=self.AHEAD,
                pin_memory=True,
            )
        )

    def begin(self) -> None:
        """Drop the batches made ahead while other candidates were measured."""
        for _ in range(self.WORKERS * self.AHEAD):
            next(self.batches)

    def run(self) -> int:
        for _ in range(self.settings["steps"]):
            images, labels = next(self.batches)
            self.network.step(
                images.to("cuda", non_blocking=True),
                labels.to("cuda", non_blocking=True),
            )
        return int(self.settings["steps"])

    def facts(self) -> dict[str, Any]:
        return {"bus_bytes_per_step": bytes_per_step(self.records, self.settings)}

    def close(self) -> None:
        del self.batches


def question(batch: int) -> Question:
    """Ask for one batch size: about 12,800 examples a run, in whole passes."""
    return Question(
        name=f"gpu_host_echoing_{batch}",
        aim="echobuf on the device is faster than on the host; bus bytes 1/e",
        unit="step",
        reference="DataLoader, repeated, pinned",
        candidates=(
            Candidate("one resident batch", Resident),
            Candidate("DataLoader, repeated, pinned", Loader, peer=True),
            Candidate("echobuf on the host, pinned", HostWindow),
            Candidate("echobuf on the device", Echoing, {"ratio": 0}),
        ),
        clock="wall",
        settings={**SETTINGS, "batch": batch, "steps": 12_800 // batch},
        tiny=TINY,
        rounds=5,
        limit_s=10,
    )


QUESTIONS = tuple(question(batch) for batch in (64, 256, 512))

if __name__ == "__main__":
    sys.exit(main(__doc__, QUESTIONS))
