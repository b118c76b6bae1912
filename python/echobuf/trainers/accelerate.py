"""`echobuf.accelerate.EchoLoader`: tells Hugging Face Accelerate where epochs end."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from accelerate.data_loader import DataLoaderStateMixin
from accelerate.state import GradientState

from echobuf.loader.signature import documented
from echobuf.resources import SharedGenerator
from echobuf.torch import EchoLoader as _EchoLoader

__all__ = ["EchoLoader"]

_END = object()


@documented
class EchoLoader(_EchoLoader, DataLoaderStateMixin):  # type: ignore[misc]
    """A torch loader that tells Accelerate which batch is the last of an epoch.

    Accelerate steps the optimizer there, though gradients of fewer batches than
    `gradient_accumulation_steps` have come together. To know, one batch is drawn ahead;
    `state_dict()` is that of the batch that the loop has.

    `Accelerator.prepare` gives it back as it is, since it yields what its process is to
    train with: each process wraps its own share of the examples.

    Args:
        upstream: an iterable of examples or of batches, or a
            `torch.utils.data.DataLoader`, not prepared by Accelerate.

    Raises:
        OptionError: an argument is out of range, or there is no process group.
        DeviceError: the device cannot be used.

    Examples:
        >>> from accelerate import Accelerator
        >>> import echobuf.accelerate
        >>> loader = echobuf.accelerate.EchoLoader(range(8), batch_size=4, factor=1)
        >>> loader = Accelerator(cpu=True).prepare(loader)
        >>> for batch in loader:
        ...     print(batch.shape, loader.end_of_dataloader)
        torch.Size([4]) False
        torch.Size([4]) True
    """

    def _set_up(self, upstream: Iterable[Any], **arguments: Any) -> None:
        super()._set_up(upstream, **arguments)
        self.gradient_state = GradientState()
        self._latest: weakref.ref[Iterator[Any]]
        # Of the batch that was given last, while another one is drawn already.
        self._given: dict[str, Any] | None = None
        self._ending: int | None = None  # the epoch whose last batch the loop has

    def __iter__(self) -> Iterator[Any]:
        """Begin an epoch."""
        epoch = super().__iter__()
        self._given = self._ending = None
        self._latest = weakref.ref(epoch)
        return SharedGenerator(self._one_ahead(epoch))

    def _one_ahead(self, epoch: Iterator[Any]) -> Iterator[Any]:
        self.begin()
        try:
            batch = next(epoch, _END)
            while batch is not _END:
                given, number = super().state_dict(), super()._counted_epoch()
                following = next(epoch, _END)
                self.end_of_dataloader = following is _END
                self._given = None if self.end_of_dataloader else given
                self._ending = number if self.end_of_dataloader else None
                yield batch
                batch = following
        finally:
            if self._latest() is epoch:  # and not another one by now
                self._ending = None
                self.end()

    def set_epoch(self, epoch: int) -> None:
        """Set the number, and so the order, of the epoch that the next `iter` begins.

        As that of `echobuf.torch.EchoLoader`.

        Examples:
            >>> import echobuf.accelerate
            >>> loader = echobuf.accelerate.EchoLoader(range(4), batch_size=4, factor=1)
            >>> loader.set_epoch(3)
            >>> loader.state_dict()["epoch"]
            3
        """
        super().set_epoch(epoch)
        if self._epochs.current() is None:
            self._given = None

    def _counted_epoch(self) -> int:
        return super()._counted_epoch() if self._ending is None else self._ending

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the batches that the loop was given.

        Examples:
            >>> import echobuf.accelerate
            >>> loader = echobuf.accelerate.EchoLoader(range(8), batch_size=2, factor=2)
            >>> batch = next(iter(loader))  # one more batch is drawn ahead
            >>> sorted(loader.state_dict())
            ['arguments', 'base', 'checksum', 'entered', 'epoch', 'format',
            'fresh_offset', 'position', 'upstream', 'version']
        """
        self._check_open()
        return super().state_dict() if self._given is None else dict(self._given)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue, at the next `iter`, where a loader of equal arguments was.

        Examples:
            >>> import echobuf.accelerate
            >>> def make():
            ...     return echobuf.accelerate.EchoLoader(
            ...         range(8), batch_size=2, factor=2
            ...     )
            >>> batches = iter(loader := make())
            >>> first, state = next(batches), loader.state_dict()
            >>> resumed = make()
            >>> resumed.load_state_dict(state)
            >>> rest = [batch.tolist() for batch in resumed]
            >>> rest == [batch.tolist() for batch in batches]
            True
        """
        super().load_state_dict(state_dict)
        self._given = None
