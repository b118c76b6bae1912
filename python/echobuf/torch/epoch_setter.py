"""What trainers look for on a loader, to tell it the epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from echobuf.torch.loader import EchoLoader


class EpochSetter:
    """Stands where a DataLoader has its batch sampler.

    Trainers call `loader.batch_sampler.sampler.set_epoch` before each epoch. There is
    nothing to sample from here: batches are drawn in native code.
    """

    def __init__(self, loader: EchoLoader) -> None:
        self._loader = loader

    @property
    def sampler(self) -> EpochSetter:
        """Itself: one schedule decides on batches and their order."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """As `EchoLoader.set_epoch`."""
        self._loader.set_epoch(epoch)
