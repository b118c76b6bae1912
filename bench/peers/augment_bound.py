"""A copy that moves as many bytes as augmenting has to."""

from __future__ import annotations

from typing import Any

import numpy as np

from peers.augment_images import Augmenting


class Moved(Augmenting):
    """`numpy.copyto` of (bytes read + bytes written) / 2, into memory that is warm."""

    guarantees = (
        ("exact use", "-"),
        ("shuffled", "no"),
        ("duplicates in a batch", "none"),
        ("batch", "the same memory each time"),
        ("timed", "the copy alone"),
    )

    def open(self) -> None:
        pixels = self.size * self.size * 3
        moved = self.batch * pixels * (1 + 4) // 2
        self.source = np.ones(moved, np.uint8)
        self.target = np.zeros(moved, np.uint8)

    def make(self, first: int) -> Any:
        np.copyto(self.target, self.source)

    def warm_up(self) -> None:
        self.run()
