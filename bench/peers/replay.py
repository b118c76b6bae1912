"""Base of replay buffers that echo by sampling, and their promises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from echobuf.cli.bench.echoing import Echoing

REPLAY = (
    ("exact use", "no: uniform draws, e times on average"),
    ("shuffled", "uniformly over the window"),
    ("duplicates in a batch", "yes, with replacement"),
)


class ReplayEchoing(Echoing):
    """Echoing with a replay buffer: e batches sampled for each batch added.

    Another base has `open`, `add` and `sample`, as `Sampling` of the harness says.
    """

    exact = False

    def prepare(self) -> None:
        self.open(self.settings, self.window)

    def batches(self) -> Iterator[Any]:
        for fresh in self.fresh_batches():
            self.add({"image": fresh})
            for _ in range(self.factor):
                yield self.to_images(self.sample())

    def to_images(self, batch: Any) -> Any:
        """Return the images of a batch, without copying."""
        return batch["image"]
