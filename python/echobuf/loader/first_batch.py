"""The first batch of a DataLoader, against what the DataLoader says of its batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from echobuf.loader.epoch_length import first_batch_length
from echobuf.loader.source import as_data_loader, has_own_collate


class FirstBatch:
    """The number of examples in the first batch, as said and as made.

    A `collate_fn` may make another number of examples than it is given.

    Args:
        upstream: of the loader.
        batched: it yields batches, which are taken apart.
        length: of upstream, as given.
        is_size_given: the loader was told the size of its own batches.

    Attributes:
        is_awaited: the number of batches in an epoch is known with the first batch.
    """

    def __init__(
        self,
        upstream: Iterable[Any],
        batched: bool,
        length: int | None,
        *,
        is_size_given: bool,
    ) -> None:
        self._upstream = upstream
        self._length = length
        self._made: tuple[int, int] | None = None
        loader, is_own = as_data_loader(upstream), has_own_collate(upstream)
        # Torch's own makes one example of each index, where it is what stacks them.
        self._is_free = is_own or loader is None or loader.batch_sampler is None
        is_known = length is not None and is_size_given
        self.is_awaited = batched and not is_known and is_own

    def note(self, made: int, is_size_given: bool) -> bool:
        """Note the first batch; warn if it is not what the DataLoader says.

        Args:
            made: examples in it.
            is_size_given: the loader was told the size of its own batches.

        Returns:
            True if the DataLoader's batch size is not that of its batches.
        """
        self.is_awaited = False
        said = first_batch_length(self._upstream, made)
        # A short one of torch's own collate is the last: upstream goes on from a state.
        if said is None or made == said or (made < said and not self._is_free):
            return False
        self._made = said, made
        # A few less: some were left out of a batch that is as large as it says.
        is_size = made > said or (made > 0 and said % made == 0)
        is_learnt = is_size and not is_size_given
        if self._length is None or is_learnt:
            size = f" `batch_size` is now {made}, as theirs." if is_learnt else ""
            warnings.warn(
                f"{self._difference()}.{size} `len(loader)` is not known: give "
                "`length=`, the number of examples that come in an epoch, and "
                "`batch_size=`. If axis 0 is not the batch axis, move it there in the "
                "`collate_fn`.",
                stacklevel=2,
            )
        return is_learnt

    def check(self, see: Callable[[], None]) -> None:
        """Raise `TypeError` if the number of batches does not follow from what is said.

        Args:
            see: makes the first batch, if it can.
        """
        if self.is_awaited:
            see()
        if self.is_awaited:
            raise TypeError(
                "a `collate_fn` may make another number of examples than it is given, "
                "which is known with the first batch; give `length=` and `batch_size=`."
            )
        if self._made is not None and self._length is None:
            raise TypeError(f"{self._difference()}; give `length=`.")

    def _difference(self) -> str:
        assert self._made is not None
        said, made = self._made
        return (
            f"the first batch of `upstream`, a {type(self._upstream).__name__}, has "
            f"{made} examples on axis 0, and is made of {said} items of the dataset"
        )


def warn_of_count(said: int, made: int, is_given: bool) -> None:
    """Warn that an epoch had another number of fresh examples than was said."""
    name = "`length`" if is_given else "`len(upstream)`"
    warnings.warn(
        f"by {name} an epoch has {said} fresh examples (batches with unit='batch'), "
        f"but one has had {made}: `len(loader)` is wrong. Give "
        f"`length={made}`, if all have as many.",
        stacklevel=2,
    )
