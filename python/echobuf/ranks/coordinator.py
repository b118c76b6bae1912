"""The coordination of a loader with the other ranks, over all of its epochs."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

from echobuf.errors import UpstreamError, message
from echobuf.loader.epoch import EpochIterator
from echobuf.loader.lengths import EpochLength
from echobuf.ranks import states
from echobuf.ranks.agreement import Agreements, LoaderCallbacks, Rendezvous
from echobuf.ranks.iterator import RankIterator
from echobuf.ranks.states import State
from echobuf.ranks.store import join_group


class RankCoordinator:
    """A loader's part in the agreement of the ranks, from one epoch to the next."""

    def __init__(self, group: Any, uneven: str, ahead: int) -> None:
        self._store = join_group(group)
        self._is_padded = uneven == "pad"
        self._agreements = Agreements(self._store, uneven, ahead)
        self._iterator: weakref.ref[RankIterator] | None = None

    # ---- epochs

    def iterate(self, epoch: EpochIterator, callbacks: LoaderCallbacks) -> RankIterator:
        """Return the iterator of an epoch, which ranks begin with their first batch."""
        iterator = RankIterator(
            epoch,
            Rendezvous(self._agreements, callbacks),
            pad=self._is_padded,
            ahead=self._agreements.ahead,
            end_epoch=callbacks.end_epoch,
        )
        self._iterator = weakref.ref(iterator)
        return iterator

    def cannot_begin(self, error: BaseException) -> None:
        """Report to the other ranks why this one cannot begin the epoch."""
        self._agreements.begin().cannot_begin(error)

    def supersede(self) -> None:
        """End the current epoch for good."""
        iterator = None if self._iterator is None else self._iterator()
        if iterator is not None:
            iterator.supersede()

    # ---- length

    def write_length(
        self, length: Callable[[], EpochLength], most: Callable[[], int]
    ) -> None:
        """Write how many batches an epoch has here, or why that is not known."""
        rank = self._store.rank
        self._store.set(
            {
                f"length/{rank}": _value_or_reason(lambda: astuple(length())),
                f"most/{rank}": _value_or_reason(most),
            }
        )

    def count_batches(self, epoch: int) -> int:
        """Return the number of batches in an epoch, given by its number.

        Waits until all ranks have a loader.

        Raises:
            TypeError: it is not known on all ranks.
        """
        lengths = self._read_all("length")
        return self._pick([EpochLength(*each).count_batches(epoch) for each in lengths])

    def max_batches(self) -> int:
        """Return the most batches of an epoch; wait until all ranks have a loader."""
        return self._pick(self._read_all("most"))

    def _read_all(self, prefix: str) -> list[Any]:
        found = self._store.wait_for(
            lambda: self._store.get_all(prefix),
            lambda: self._store.missing(prefix) + " to make a loader",
        )
        for rank, (value, reason) in zip(self._store.members, found, strict=True):
            if value is None:
                raise TypeError(f"on rank {rank} {reason}")
        return [value for value, _ in found]

    def _pick(self, counts: list[int]) -> int:
        return max(counts) if self._is_padded else min(counts)

    # ---- states

    def position(self) -> State | None:
        """Return the position after the batches handed out; None before any epoch."""
        progress, agreement = self._agreements.progress, self._agreements.last
        if progress is None or agreement is None:
            return None
        positions = None
        if not progress.is_done:
            with contextlib.suppress(UpstreamError):  # the other ranks have ended
                positions = agreement.positions(progress.at.batches)
        return states.position_of(progress, self._store.rank, positions)

    def unseal(self, sealed: Any, arguments: State) -> State:
        """Return the position from which this rank goes on."""
        rank, size = self._store.rank, self._store.size
        return states.unseal(sealed, arguments, rank, size, pad=self._is_padded)


def _value_or_reason(get: Callable[[], Any]) -> list[Any]:
    try:
        return [get(), ""]
    except TypeError as error:
        return [None, message(error)]
