"""Records that say who they are, with dtypes that CuPy and torch both have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import echobuf

SPEC = {
    "id": echobuf.Field((), np.int64),
    "body": (echobuf.Field((3, 5), np.float32), echobuf.Field((7,), np.uint8)),
}


def stack(ids: Sequence[int] | np.ndarray) -> dict[str, Any]:
    """Examples whose every field follows from their id."""
    number = np.asarray(ids, np.int64).reshape(-1)
    grid = number[:, None] * 15 + np.arange(15)
    tail = (number[:, None] * 7 + np.arange(7)).astype(np.uint8)
    return {
        "id": number,
        "body": (grid.astype(np.float32).reshape(-1, 3, 5), tail),
    }


def ids_of(batch: dict[str, Any]) -> list[int]:
    """The ids in a batch, on the host, none of whose records is torn."""
    expected = stack(batch["id"])
    for got, want in zip(batch["body"], expected["body"], strict=True):
        np.testing.assert_array_equal(got, want)
    return batch["id"].tolist()


def feed(buffer: Any, count: int, chunk: int = 64, first: int = 0) -> None:
    """The only producer: puts `count` examples, then closes."""
    for start in range(first, count, chunk):
        stop = min(start + chunk, count)
        buffer.put_batch(stack(range(start, stop)), timeout=60)
    buffer.close()
