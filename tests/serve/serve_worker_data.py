"""Datasets that the worker processes of a server read: they import this module."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from echobuf import Ragged

_MARK = 0x5EED  # a slot of zeros is no example


class Marked:
    """A dataset whose examples follow, word by word, from their numbers.

    Args:
        n: how many.
        trouble: called in a worker with the number of an example before it is made.
    """

    def __init__(self, n: int, trouble: Callable[[int], Any] | None = None) -> None:
        self.n = n
        self.trouble = trouble

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        if self.trouble is not None and is_worker():
            self.trouble(index)
        return {"id": np.int64(index), "x": np.full(300, index + _MARK, np.int32)}


class MarkedTexts(Marked):
    """The same, of examples that differ in length."""

    def __getitem__(self, index: int) -> Any:
        example = super().__getitem__(index)
        return {**example, "x": np.resize(example["x"], length_of(index))}


def length_of(index: int) -> int:
    return index * 7919 % 600


class RaiseAt:
    """Raise at example `at`."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, index: int) -> None:
        if index == self.at:
            raise ValueError("no such example")


class WaitAt:
    """Wait at example `at` until there is a file."""

    def __init__(self, at: int, path: Path) -> None:
        self.at = at
        self.path = path

    def __call__(self, index: int) -> None:
        while index == self.at and not self.path.exists():
            time.sleep(0.001)


def is_worker() -> bool:
    return multiprocessing.current_process().name.startswith("echobuf-worker")


def numbers_of(batch: Any) -> list[int]:
    """Return the numbers in a batch, every word of which was checked."""
    ids = np.asarray(batch["id"])
    if isinstance(batch["x"], Ragged):
        lengths = [length_of(each) for each in ids.tolist()]
        assert batch["x"].lengths.tolist() == lengths, "not the lengths"
        assert (batch["x"].values == np.repeat(ids + _MARK, lengths)).all()
        return ids.tolist()
    assert (np.asarray(batch["x"]) == ids[:, None] + _MARK).all(), (
        f"not what was made: {ids.tolist()}, {np.asarray(batch['x'])[:, :2].tolist()}"
    )
    return [int(each) for each in ids]
