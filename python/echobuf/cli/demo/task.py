"""What all runs have in common, and the clock they are measured with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch import Tensor
from torch.utils.data import DataLoader

from echobuf.cli.demo.data import augment, enlarge
from echobuf.cli.demo.model import Model
from echobuf.cli.demo.settings import Condition, Settings
from echobuf.cli.demo.upstream import DigitStream, Gate

__all__ = ["Clock", "Task"]


@dataclass(frozen=True)
class Task:
    """What is the same in all runs.

    Attributes:
        settings: The choices.
        port: The server's port.
        names: The files to train on.
        images: The test set's images, `uint8[n, SIDE, SIDE]`, on the settings' device.
        labels: The test set's labels, `int64[n]`, there too.
        gate: Stops the upstream during evaluations.
    """

    settings: Settings
    port: int
    names: tuple[str, ...]
    images: Tensor
    labels: Tensor
    gate: Gate = field(default_factory=Gate)

    def model(self) -> Model:
        """A new model, with the same first weights each time."""
        chosen = self.settings
        return Model(
            chosen.seed,
            chosen.learning_rate,
            chosen.momentum,
            chosen.device,
            chosen.width,
        )

    def stream(self) -> DigitStream:
        """The stream of fresh examples, from its beginning."""
        return DigitStream(self.port, self.names, self.settings.seed, self.gate)

    def upstream(self, condition: Condition) -> DataLoader[object]:
        """The stream in batches: the pipeline as one writes it without echobuf."""
        prepare = augment if condition.distorted == "upstream" else enlarge
        chosen = self.settings
        stream = DigitStream(self.port, self.names, chosen.seed, self.gate, prepare)
        return DataLoader(stream, batch_size=chosen.batch_size, num_workers=0)


class Clock:
    """Counts the seconds of a run, and can stand still.

    Args:
        now: Returns the time in seconds; replaced in tests.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._zero = now()

    def seconds(self) -> float:
        """Seconds since the start, without the time that it stood still."""
        return self._now() - self._zero

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stands still for the length of the `with` block."""
        begin = self._now()
        try:
            yield
        finally:
            self._zero += self._now() - begin
