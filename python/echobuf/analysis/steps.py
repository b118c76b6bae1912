"""When the training steps begin, each of which takes its mean time."""

from __future__ import annotations


class Steps:
    """Steps on batches, of which the one that began last after a wait is known.

    Args:
        batch_size: examples of a batch.
        example_s: t_downstream, seconds per example of a batch.
    """

    def __init__(self, batch_size: int, example_s: float) -> None:
        self._size = batch_size
        self._batch_s = batch_size * example_s
        self.drawn = 0  # examples
        self._batch = 0
        self._begin = 0.0

    def next_batch(self) -> int:
        """The batch that the next draw is in."""
        return self.drawn // self._size

    def last_batch(self) -> int:
        """The batch that the last draw was in."""
        return (self.drawn - 1) // self._size

    def begin(self, batch: int) -> float:
        """When a batch begins that nothing but the steps before it holds up."""
        return self._begin + (batch - self._batch) * self._batch_s

    def draw(self, length: int, there_s: float) -> None:
        """Draws a pass, all records of which are there from `there_s` on."""
        batch = self.next_batch()
        self._begin = max(self.begin(batch), there_s)
        self._batch = batch
        self.drawn += length

    def end(self) -> float:
        """When the step of the last batch, which may be shorter, is done."""
        left = self.drawn - self._batch * self._size
        return self._begin + left / self._size * self._batch_s
