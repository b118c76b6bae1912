"""Datasets of examples that differ in length, which worker processes read.

In a module of their own: worker processes import it.
"""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np

import echobuf
from worker_data import is_worker

KWARGS: dict[str, Any] = {
    "batch_size": 4,
    "window": 16,
    "factor": 2,
    "seed": 5,
    "payload_bytes": 4000,
}
SHARE = 2000  # bytes of a segment


def length_of(number: int) -> int:
    """Now and then no row, and now and then all of a share."""
    if number % 50 == 7:
        return 0
    if number % 50 == 9:
        return (SHARE - 2 * 30) // 4
    return number * 7919 % 60


class Texts:
    """A dataset whose example i has rows that follow from i."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        number = range(self.n)[index]
        return {
            "id": np.int64(number),
            "tokens": np.arange(length_of(number), dtype=np.int32) + 1000 * number,
            "scores": np.full((number % 11, 3), number % 100, np.uint8)[:10],
        }


class Tokens(Texts):
    """A dataset of one ragged leaf."""

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)["tokens"]


class Files(Texts):
    """A dataset of encoded files: bytes."""

    def __getitem__(self, index: int) -> Any:
        return bytes([index % 256]) * (index % 9)


class Troubled(Texts):
    """A dataset that misbehaves at an example in a worker, while a file exists."""

    def __init__(self, n: int, trouble: Any, at: int, flag: Path) -> None:
        super().__init__(n)
        self.trouble, self.at, self.flag = trouble, at, flag

    def __getitem__(self, index: int) -> Any:
        if index == self.at and self.flag.exists() and is_worker():
            return self.trouble(super().__getitem__(index))
        return super().__getitem__(index)


def too_large(example: Any) -> Any:
    return {**example, "tokens": np.zeros(SHARE // 4 + 1, np.int32)}


class OnlyOne(Texts):
    """A dataset all of whose examples fail, but for the first."""

    def __getitem__(self, index: int) -> Any:
        if index > 0:
            raise LookupError("no such text")
        return super().__getitem__(index)


def misshapen(example: Any) -> Any:
    return {**example, "scores": np.zeros((3, 4), np.uint8)}


def failing(example: Any) -> Any:
    raise LookupError("no such text")


def crashing(example: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def hanging(example: Any) -> Any:
    threading.Event().wait()


def load(dataset: Any, workers: int, **kwargs: Any) -> echobuf.EchoLoader:
    return echobuf.EchoLoader(dataset, num_workers=workers, **{**KWARGS, **kwargs})


def texts(batches: Any) -> list[list[int]]:
    """Return the ids of each batch; every row must be that of its example."""
    served = []
    for batch in batches:
        ids = batch["id"].tolist()
        for number, tokens in zip(ids, batch["tokens"].to_list(), strict=True):
            wanted = Texts(10**6)[number]["tokens"]
            np.testing.assert_array_equal(tokens, wanted)
        served.append(ids)
    return served
