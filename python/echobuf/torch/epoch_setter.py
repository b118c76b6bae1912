"""What trainers look for on a loader, to tell it the epoch."""

from __future__ import annotations

from collections.abc import Callable


class EpochSetter:
    """Stands where a DataLoader has its batch sampler.

    Trainers call `loader.batch_sampler.sampler.set_epoch` before each epoch. There is
    nothing to sample from here: batches are drawn in native code.

    Args:
        set_epoch: that of the loader.
    """

    def __init__(self, set_epoch: Callable[[int], None]) -> None:
        self._set_epoch = set_epoch

    @property
    def sampler(self) -> EpochSetter:
        """Itself: one schedule decides on batches and their order."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """As `EchoLoader.set_epoch`."""
        self._set_epoch(epoch)
