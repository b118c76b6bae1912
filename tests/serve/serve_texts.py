"""Examples that differ in length, for servers and their jobs; workers import this."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from serve_data import Job

from same_batches import count_same

NAME = "texts"
PAYLOAD = 1600
LARGEST = PAYLOAD // 4  # bytes of an example at the server
KWARGS = {"window": 8, "batch_size": 4, "factor": 2, "payload_bytes": PAYLOAD}


class Texts:
    """A dataset, and an iterable, whose example i has rows that follow from i.

    Args:
        n: examples an epoch.
        gate: called with the number of an example before that is made.
        lengths: number of tokens of an example.
    """

    def __init__(
        self,
        n: int,
        gate: Callable[[int], Any] | None = None,
        lengths: Callable[[int], int] | None = None,
    ) -> None:
        self.n = n
        self.made = 0
        self.lengths = lengths or length_of
        self._gate = gate

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, number: int) -> Any:
        return example(number, self.lengths(number))

    def __iter__(self) -> Iterator[Any]:
        for number in range(self.n):
            if self._gate is not None:
                self._gate(number)
            self.made += 1
            yield self[number]


class Tokens(Texts):
    """The same, of one ragged leaf: all examples have tokens."""

    def __getitem__(self, number: int) -> Any:
        return example(number, 1 + length_of(number))["tokens"]


class Files(Texts):
    """The same, of bytes."""

    def __getitem__(self, number: int) -> Any:
        return {"id": np.int64(number), "file": bytes([number % 251]) * (number % 90)}


def length_of(number: int) -> int:
    """Now and then no row, and now and then all that an example may have."""
    if number % 29 == 3:
        return 0
    if number % 29 == 8:
        return (LARGEST - 2 * 8) // 4
    return number * 7919 % 50


def example(number: int, length: int) -> Any:
    return {
        "id": np.int64(number),
        "tokens": np.arange(length, dtype=np.int32) + 1000 * number,
        "points": np.full((number % 9, 2), number % 100, np.uint8)[:8],
    }


class TextJob(Job):
    """A job of this server, which keeps its batches."""

    server = NAME

    def __init__(
        self, epochs: int, kwargs: dict[str, Any], upstream: Any = None, **attach: Any
    ) -> None:
        super().__init__(epochs, kwargs, upstream, **{"timeout": 30.0, **attach})

    def kept(self, batch: Any) -> Any:
        return batch


def assert_same(epochs: list[list[Any]], others: list[list[Any]]) -> int:
    """Compare epochs batch by batch; return the number of batches."""
    return sum(itertools.starmap(count_same, zip(epochs, others, strict=True)))


def ids_of(batch: Any) -> list[int]:
    """Return the numbers of a packed batch's examples, none of which may be torn."""
    ids = batch["id"].tolist()
    for number, tokens, points in zip(
        ids, batch["tokens"].to_list(), batch["points"].to_list(), strict=True
    ):
        whole = example(number, len(tokens))
        np.testing.assert_array_equal(tokens, whole["tokens"])
        np.testing.assert_array_equal(points, whole["points"])
    return ids


def uses_of(batches: list[Any], n: int) -> list[int]:
    """Return how often each example was served."""
    ids = [number for batch in batches for number in ids_of(batch)]
    return np.bincount(ids, minlength=n).tolist()
