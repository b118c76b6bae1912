"""Checksummed records of several shapes, for tests that put and draw at random."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import echobuf
from equal_arrays import assert_equal

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Records:
    """Records that follow from their number, so that a torn one is seen.

    Args:
        words: 64-bit words in a record; 0 leaves an empty leaf.
        rows: of a whole batch with `unit="batch"`; 0: records are examples.
    """

    words: int
    rows: int = 0

    def spec(self) -> dict[str, Any]:
        lead = (self.rows,) if self.rows else ()
        return {
            "id": echobuf.Field(lead, np.int64),
            "body": (
                echobuf.Field((*lead, self.words), np.uint64),
                echobuf.Field((*lead, 3, 1), np.uint8),
            ),
        }

    def length(self, number: int) -> int:
        """Rows of a whole batch; of one put, all have the same."""
        return 1 + number // 64 % self.rows

    def _leaves(self, numbers: np.ndarray) -> dict[str, Any]:
        """Leaves whose leading axes are those of `numbers`."""
        steps = np.arange(self.words, dtype=np.uint64)
        words = (numbers.astype(np.uint64)[..., None] + steps) * _GOLDEN
        tail = (numbers[..., None] * 7 + np.arange(3)).astype(np.uint8)[..., None]
        return {"id": numbers, "body": (words, tail)}

    def _numbers(self, ids: list[int]) -> np.ndarray:
        numbers = np.array(ids, np.int64)
        if not self.rows:
            return numbers
        length = self.length(ids[0]) if ids else 1
        return numbers[:, None] * 1000 + np.arange(length)

    def stacked(self, ids: list[int]) -> dict[str, Any]:
        return self._leaves(self._numbers(ids))

    def one(self, number: int) -> dict[str, Any]:
        whole = self.stacked([number])
        return {"id": whole["id"][0], "body": tuple(leaf[0] for leaf in whole["body"])}

    def wrong(self, kind: int) -> dict[str, Any]:
        """Return examples that a put must refuse."""
        good = self.one(0)
        words, tail = good["body"]
        return [
            {**good, "body": (words.astype(np.int64), tail)},
            {**good, "body": (words, tail[..., 0])},
            {"id": good["id"]},
        ][kind % 3]

    def out(self, batch_size: int, *, gaps: bool) -> dict[str, Any]:
        """Arrays for a batch; with `gaps` they are not contiguous."""
        lead = (self.rows or batch_size,)
        step = 2 if gaps else 1

        def leaf(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
            return np.zeros((lead[0] * step, *shape), dtype)[::step]

        return {
            "id": leaf((), np.int64),
            "body": (leaf((self.words,), np.uint64), leaf((3, 1), np.uint8)),
        }

    def ids(self, batch: dict[str, Any]) -> list[int]:
        """The numbers in a batch none of whose records is torn."""
        expected = self._leaves(np.asarray(batch["id"]))
        for got, want in zip(batch["body"], expected["body"], strict=True):
            assert_equal(got, want)
        if not self.rows:
            return batch["id"].tolist()
        number = int(batch["id"][0]) // 1000
        assert_equal(batch["id"], self.one(number)["id"])
        return [number]
