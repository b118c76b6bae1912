"""Records that candidates work on, and checks of batches of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

Records = dict[str, Any]

_BLOCK = 1 << 22  # of noise, laid one after the other
_CHUNK = 1024  # records added at a time


def make_records(settings: Mapping[str, Any]) -> Records:
    """Make arrays `[records, *shape]`; each record carries its index.

    `settings["fields"]` is name -> [shape, dtype]; the index is the first four bytes
    of the field called `settings["key"]`.
    """
    count = settings["records"]
    noise = np.random.default_rng(0).integers(0, 120, _BLOCK, dtype=np.uint8)
    records = {}
    for name, (shape, dtype) in settings["fields"].items():
        array = np.empty((count, *shape), dtype)
        flat = array.reshape(-1).view(np.uint8)
        for start in range(0, flat.size, _BLOCK):
            part = flat[start : start + _BLOCK]
            part[:] = noise[: part.size]
        records[name] = array
    key_view(records[settings["key"]])[:] = np.arange(count)
    return records


def empty_batch(records: Records, batch: int) -> Records:
    """Make arrays `[batch, *shape]` to draw batches into."""
    return {
        name: np.zeros((batch, *array.shape[1:]), array.dtype)
        for name, array in records.items()
    }


def key_view(array: Any) -> Any:
    """Return a view of the indices that the records of `[n, *shape]` carry."""
    width = array.dtype.itemsize * math.prod(array.shape[1:])
    flat = array.reshape(len(array), -1).view(np.uint8).reshape(-1, width)
    return flat[:, :4].view(np.int32)[:, 0]


def chunks(records: Records, count: int) -> Iterator[Records]:
    """Yield the first `count` records, some at a time."""
    for start in range(0, count, _CHUNK):
        stop = min(start + _CHUNK, count)
        yield {name: array[start:stop] for name, array in records.items()}


def check_batch(records: Records, batch: Mapping[str, Any], settings: Any) -> Any:
    """Fail unless each row of a batch is an intact record; return the indices."""
    arrays = {name: np.ascontiguousarray(batch[name]) for name in records}
    indices = key_view(arrays[settings["key"]]).copy()
    if settings["batch"] not in (None, len(indices)):
        raise AssertionError(f"{len(indices)} rows in a batch of {settings['batch']}")
    for name, array in arrays.items():
        expected = records[name]
        if array.dtype != expected.dtype:
            raise AssertionError(f"{name}: {array.dtype}, not {expected.dtype}")
        rows = array.reshape(len(array), *expected.shape[1:])
        if not np.array_equal(rows, expected[indices]):
            raise AssertionError(f"{name}: a row is no record")
    return indices


def check_uses(indices: Iterable[Any], records: int, factor: int) -> None:
    """Fail unless every example was served `factor` times."""
    counts = np.bincount(np.concatenate([*indices]), minlength=records)
    missing = int(np.abs(counts - factor).sum())
    if missing:
        raise AssertionError(
            f"{missing} uses too many or too few: {counts.min()} to {counts.max()} "
            f"uses instead of {factor}"
        )
