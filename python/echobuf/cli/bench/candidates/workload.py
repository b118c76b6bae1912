"""The records that all candidates work on, and checks of what they serve."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

Records = dict[str, Any]
_BLOCK = 1 << 22  # of noise, laid one after the other


def make_records(settings: Mapping[str, Any]) -> Records:
    """Arrays `[records, *shape]`; each record carries its own index.

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


def key_view(array: Any) -> Any:
    """The index that each record of `[n, *shape]` carries, writable if `array` is."""
    width = array.dtype.itemsize * math.prod(array.shape[1:])
    return (
        array.reshape(len(array), -1)
        .view(np.uint8)
        .reshape(-1, width)[:, :4]
        .view(np.int32)[:, 0]
    )


def row(records: Records, index: int) -> Records:
    """One example, as views."""
    return {name: array[index] for name, array in records.items()}


def check_batch(records: Records, batch: Mapping[str, Any], settings: Any) -> Any:
    """Fails unless each row of a batch is a record, whole; returns their indices."""
    arrays = {name: np.ascontiguousarray(batch[name]) for name in records}
    indices = key_view(arrays[settings["key"]]).copy()
    if settings["batch"] not in (None, len(indices)):
        raise AssertionError(f"{len(indices)} rows in a batch of {settings['batch']}")
    for name, array in arrays.items():
        expected = records[name]
        if array.dtype != expected.dtype:
            raise AssertionError(f"{name}: {array.dtype}, not {expected.dtype}")
        if not np.array_equal(
            array.reshape(len(array), *expected.shape[1:]), expected[indices]
        ):
            raise AssertionError(f"{name}: a row is no record")
    return indices


def check_uses(
    indices: Iterable[Any], records: int, factor: int, allowed_missing: int = 0
) -> dict[str, float]:
    """Fails unless every example was served `factor` times.

    Returns:
        How many examples came twice into a batch, on average, and how far batches
        are from upstream's order (1: not shuffled at all).
    """
    counts = np.zeros(records, np.int64)
    twice = []
    for batch in indices:
        np.add.at(counts, batch, 1)
        twice.append(len(batch) - len(np.unique(batch)))
    missing = int(np.abs(counts - factor).sum())
    if missing > allowed_missing:
        raise AssertionError(
            f"{missing} uses too many or too few: {counts.min()} to {counts.max()} "
            f"uses instead of {factor}"
        )
    return {"duplicates_per_batch": float(np.mean(twice))}
