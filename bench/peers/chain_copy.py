"""A copy that moves as many bytes as a chain has to read and write."""

from __future__ import annotations

from typing import Any

import numpy as np

from peers.chain_images import Chained


class Moved(Chained):
    """`numpy.copyto` of (bytes read + bytes written) / 2, into memory that is warm."""

    guarantees = (
        ("exact use", "-"),
        ("shuffled", "no"),
        ("duplicates in a batch", "none"),
        ("batch", "the same memory each time"),
        ("timed", "the copy alone"),
    )

    @classmethod
    def has(cls, settings: dict[str, Any]) -> bool:
        return True

    def open(self) -> None:
        moved = self.batch * self.settings["bytes"] // 2
        batches = len(self.images) // self.batch
        self.source = np.ones((batches, moved), np.uint8)  # as large as a window is
        self.target = np.zeros(moved, np.uint8)

    def make(self, first: int) -> Any:
        np.copyto(self.target, self.source[first // self.batch])

    def warm_up(self) -> None:
        self.run()
