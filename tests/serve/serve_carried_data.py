"""Upstreams of servers whose examples carry objects, and jobs that check these."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from serve_data import NAME, Job

from echobuf import serve


class Titled:
    """Examples that carry a text, None now and then, and a number in a set.

    Args:
        n: examples an epoch.
        batch: examples in a batch; None for single ones.
        ragged: they have rows that differ in length, too.
        size: characters of a text, beside its number.
        gate: called with the number of an example before that is made.
    """

    def __init__(
        self,
        n: int,
        *,
        batch: int | None = None,
        ragged: bool = False,
        size: int = 0,
        gate: Callable[[int], Any] | None = None,
    ) -> None:
        self.n = n
        self.batch = batch
        self.ragged = ragged
        self.size = size
        self.gate = gate

    def __iter__(self) -> Iterator[Any]:
        if self.batch is None:
            yield from map(self.example, range(self.n))
            return
        for first in range(0, self.n, self.batch):
            examples = [
                *map(self.example, range(first, min(self.n, first + self.batch)))
            ]
            batch = {name: [each[name] for each in examples] for name in examples[0]}
            batch["id"] = np.stack(batch["id"])
            yield {**batch, "source": "the same"}

    def example(self, number: int) -> Any:
        if self.gate is not None:
            self.gate(number)
        item = {
            "id": np.int64(number),
            "title": f"{number}:" + "t" * self.size,
            "maybe": None if number % 3 else frozenset({number}),
        }
        if self.ragged:
            item["rows"] = np.full(number * 7919 % 30, number, np.int32)
        return item


class Dataset(Titled):
    """The same, read by index, also by workers."""

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.0002)
        return self.example(index)


class Unlucky(Dataset):
    """The same, which carries at example 40 what cannot be pickled."""

    def example(self, number: int) -> Any:
        item = super().example(number)
        if number == 40:
            item["maybe"] = (each for each in ())
        return item


class TitledJob(Job):
    """A job that checks what its examples carry."""

    size = 0

    def __init__(
        self, *args: Any, pause: float = 0.0, size: int = 0, **more: Any
    ) -> None:
        self.pause = pause
        self.size = size
        super().__init__(*args, **more)

    def kept(self, batch: Any) -> list[int]:
        time.sleep(self.pause)
        return check(batch, self.size)


def check(batch: Any, size: int = 0) -> list[int]:
    """Return the numbers of a batch's examples; each has exactly its objects."""
    ids: list[int] = np.asarray(batch["id"]).tolist()
    assert batch["title"] == [f"{i}:" + "t" * size for i in ids]
    assert batch["maybe"] == [None if i % 3 else frozenset({i}) for i in ids]
    assert batch.get("source", []) == ["the same"] * len(batch.get("source", []))
    return ids


def served(epochs: list[list[list[int]]]) -> list[Counter[int]]:
    return [Counter(i for batch in epoch for i in batch) for epoch in epochs]


def server_of(upstream: Any, **options: Any) -> serve.Server:
    return serve.Server(upstream, NAME, **{"window": 16, "epochs": 3, **options})
