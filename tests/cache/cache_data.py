"""Data whose items follow from their numbers, and processes that read them."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3  # noqa: F401 - a child of another user may not read where it is
from collections.abc import Callable
from typing import Any

import numpy as np

from echobuf.cache import CachedDataset
from echobuf.cache.items import ItemEncoder

COUNT = 40


class Numbered:
    """Dicts of an array, a number, a string and bytes.

    Attributes:
        reads: the numbers of the items that were read, in this process.
    """

    def __init__(self, count: int = COUNT, salt: int = 0) -> None:
        self.count = count
        self.salt = salt
        self.reads: list[int] = []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Any:
        self.reads.append(number)
        return item(number, self.salt)


def item(number: int, salt: int = 0) -> dict[str, Any]:
    pixels = np.random.default_rng([number, salt]).integers(0, 256, (8, 8, 3), np.uint8)
    return {"x": pixels, "y": number, "name": f"item {number}", "raw": bytes([number])}


def check(got: Any, number: int, salt: int = 0) -> None:
    expected = item(number, salt)
    np.testing.assert_array_equal(got.pop("x"), expected.pop("x"))
    assert got == expected


def check_all(cached: CachedDataset, salt: int = 0) -> None:
    for number in range(len(cached)):
        check(cached[number], number, salt)


def size_of(value: Any) -> int:
    """Return the bytes of an encoded item."""
    return ItemEncoder(value).size


def make(directory: Any = None, max_bytes: int = 10**6, **kwargs: Any) -> CachedDataset:
    """Make a cache with a source, in memory unless there is a directory."""
    source = kwargs.pop("source") if "source" in kwargs else Numbered()
    if directory is not None:
        kwargs.setdefault("identity", "numbered")
    return CachedDataset(source, max_bytes, directory=directory, **kwargs)


def store_of(cached: CachedDataset) -> Any:
    """Return the store of a cache, to look into it or to damage it."""
    return cached._store  # noqa: SLF001 - a part of a public class


def in_child(work: Callable[..., None], *args: Any, user: int | None = None) -> None:
    """Run `work` in a forked process, as another user where this one is root."""

    def run() -> None:
        if user is not None and os.geteuid() == 0:
            os.setgid(user)
            os.setuid(user)
        work(*args)

    child = multiprocessing.get_context("fork").Process(target=run)
    child.start()
    child.join(60)
    if child.exitcode is None:
        child.kill()
    assert child.exitcode == 0
