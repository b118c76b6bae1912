"""The bare copy limit of echoing: one copy in for a fresh example, one out a draw."""

from __future__ import annotations

import numpy as np

from echobuf.cli.bench.candidates.base import Stream


class Echo(Stream):
    """`numpy.copyto`, one thread, warm memory; batches are consecutive records."""

    packages = ("numpy",)
    guarantees = (
        ("exact use", "by construction: e copies of what has just come in"),
        ("shuffled", "no"),
        ("duplicates in a batch", "none"),
        ("batch", "copied into the same array each time"),
        ("timed", "the copies alone"),
    )

    def prepare(self) -> None:
        self.ring = np.zeros((self.window, *self.images.shape[1:]), np.uint8)
        self.out = np.zeros((self.batch, *self.images.shape[1:]), np.uint8)

    def warm_up(self) -> None:
        self.run()

    def run(self) -> int:
        slots = self.window // self.batch
        served = 0
        for number, fresh in enumerate(self.fresh_batches()):
            start = number % slots * self.batch
            np.copyto(self.ring[start : start + self.batch], fresh)
            for turn in range(self.factor):
                # A batch of the window, from another place each time.
                start = (number + turn * slots // self.factor) % slots * self.batch
                np.copyto(self.out, self.ring[start : start + self.batch])
                served += self.batch
        return served
