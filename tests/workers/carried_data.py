"""Datasets whose examples carry leaves that are no arrays, and their checks.

In a module of their own: worker processes import it.
"""

import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from echobuf.workers.object_log import LogWriter
from ragged_worker_data import length_of
from worker_data import KWARGS, is_worker

LOCK: Any = threading.Lock()  # cannot be pickled


class Maker:
    """An object that can be referred to weakly."""

    def __init__(self, process: int, made: int) -> None:
        self.process = process
        self.made = made


class Named:
    """A dataset whose examples carry a text, None now and then, and who made them.

    Args:
        n: examples.
        size: characters of the text, beside its number.
    """

    def __init__(self, n: int, size: int = 0) -> None:
        self.n = n
        self.size = size

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        made = np.random.default_rng().integers(2**60)  # another one each time
        return {
            "id": np.int64(index),
            "made": made,
            "name": f"{index}:" + "x" * self.size,
            "maybe": None if index % 3 else frozenset({index}),
            "by": Maker(os.getpid(), made.item()),
        }


class RaggedNamed(Named):
    """The same of examples that differ in length."""

    def __getitem__(self, index: int) -> Any:
        tokens = np.full(length_of(index), index, np.int32)
        return {**super().__getitem__(index), "tokens": tokens}


class Uneven(Named):
    """The same, where every seventh example takes long."""

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.02 if index % 7 == 3 else 0.0005)
        return super().__getitem__(index)


class Odd(Named):
    """The same, with another thing at `at` while a file `flag` exists."""

    def __init__(self, n: int, odd: Any, at: int, flag: Path) -> None:
        super().__init__(n)
        self.odd = odd
        self.at = at
        self.flag = flag

    def __getitem__(self, index: int) -> Any:
        item = super().__getitem__(index)
        if index == self.at and self.flag.exists():
            assert is_worker()
            item["maybe"] = self.odd()
        return item


class Unreadable:
    """An object that can be pickled, and not unpickled."""

    def __reduce__(self) -> Any:
        return _refuse, ()


def _refuse() -> None:
    raise LookupError("no such object here")


def locked() -> Any:
    return LOCK


def array() -> Any:
    return np.zeros(3)


class DiesOnceSent:
    """A `worker_init_fn`: a worker dies once, before it is done with what it sent.

    Args:
        flag: a file that exists until then.
        at: the index of the example.
    """

    def __init__(self, flag: Path, at: int) -> None:
        self.flag = flag
        self.at = at

    def __call__(self, number: int) -> None:
        write = LogWriter.write

        def note(writer: LogWriter, number: int, row: bytes, index: int) -> None:
            write(writer, number, row, index)
            if index == self.at and self.flag.exists():
                self.flag.unlink()
                os.kill(os.getpid(), signal.SIGKILL)

        LogWriter.write = note  # type: ignore[method-assign]


def check(batch: Any, dataset: Named) -> list[int]:
    """Return the numbers of a batch's examples; each has exactly its objects."""
    ids: list[int] = batch["id"].tolist()
    assert batch["name"] == [f"{i}:" + "x" * dataset.size for i in ids]
    assert batch["maybe"] == [None if i % 3 else frozenset({i}) for i in ids]
    assert [by.made for by in batch["by"]] == batch["made"].tolist()
    return ids


def counts(batches: Any, dataset: Named) -> Counter[int]:
    """Return how often each example is served."""
    return Counter(i for batch in batches for i in check(batch, dataset))


def whole(dataset: Named, factor: int = KWARGS["factor"]) -> dict[int, int]:
    return dict.fromkeys(range(dataset.n), factor)
