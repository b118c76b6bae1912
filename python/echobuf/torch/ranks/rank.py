"""A loader's place among the ranks that train together."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

from echobuf.describe_error import message
from echobuf.errors import UpstreamError
from echobuf.loader.epoch import Epoch
from echobuf.loader.length import EpochLength
from echobuf.torch.ranks import states
from echobuf.torch.ranks.beginning import Beginning
from echobuf.torch.ranks.group import meet
from echobuf.torch.ranks.place import State
from echobuf.torch.ranks.sessions import Sessions
from echobuf.torch.ranks.together import Together


class Rank:
    """What a loader knows of its ranks from one epoch to the next.

    Args:
        group: the process group; None: all ranks.
        uneven: "drop" or "pad".
        ahead: batches to have in hand.

    Raises:
        OptionError: there is no process group, or this rank is not in it.
    """

    def __init__(self, group: Any, uneven: str, ahead: int) -> None:
        self._meeting = meet(group)
        self._uneven = uneven
        self._ahead = ahead
        self._sessions = Sessions(self._meeting, uneven, ahead)
        self._together: weakref.ref[Together] | None = None

    # ---- epochs

    def together(
        self, epoch: Epoch, arguments: Callable[[], State], loader: weakref.ref[Any]
    ) -> Together:
        """The iterator of an epoch that all ranks begin with their first batch.

        Args:
            epoch: of this rank.
            arguments: of the loader; known when the epoch is begun.
            loader: hears of the end, and of an epoch that could not be begun.
        """
        together = Together(
            epoch,
            Beginning(self._sessions, arguments, loader),
            pad=self._uneven == "pad",
            ahead=self._ahead,
            finished=functools.partial(_end, loader),
        )
        self._together = weakref.ref(together)
        return together

    def cannot_begin(self, error: BaseException) -> None:
        """Tells the other ranks why this one does not come."""
        self._sessions.begin().cannot_begin(error)

    def supersede(self) -> None:
        """Ends the current epoch for good."""
        together = None if self._together is None else self._together()
        if together is not None:
            together.supersede()

    # ---- length

    def say_length(
        self, length: Callable[[], EpochLength], most: Callable[[], int]
    ) -> None:
        """Tell the other ranks how many batches an epoch has here, or why not.

        Args:
            length: gives what the number in each epoch follows from.
            most: gives the most that it can be.
        """
        rank = self._meeting.rank
        said = {
            f"length/{rank}": _said(lambda: astuple(length())),
            f"most/{rank}": _said(most),
        }
        self._meeting.set(said)

    def count_batches(self, epoch: int) -> int:
        """Return the number of batches in an epoch, given by its number.

        Waits until all ranks have a loader.

        Raises:
            TypeError: it is not known on all ranks.
        """
        counts = self._agree("length")
        return self._pick([EpochLength(*each).count_batches(epoch) for each in counts])

    def max_batches(self) -> int:
        """The most batches in an epoch; waits until all ranks have a loader.

        Raises:
            TypeError: it is not known on all ranks.
        """
        return self._pick(self._agree("most"))

    def _agree(self, what: str) -> list[Any]:
        said = self._meeting.wait_for(
            lambda: self._meeting.get_all(what),
            lambda: self._meeting.missing(what) + " to make a loader",
        )
        for rank, (value, why) in zip(self._meeting.members, said, strict=True):
            if value is None:
                raise TypeError(f"on rank {rank} {why}")
        return [value for value, _ in said]

    def _pick(self, counts: list[int]) -> int:
        return max(counts) if self._uneven == "pad" else min(counts)

    # ---- states

    def position(self) -> State | None:
        """Where the batches handed out have come to; None before any epoch."""
        progress, session = self._sessions.progress, self._sessions.last
        if progress is None or session is None:
            return None
        places = None
        if not progress.done:
            with contextlib.suppress(UpstreamError):  # the other ranks have ended
                places = session.places(progress.place.batches)
        return states.of_progress(progress, self._meeting.rank, places)

    def unseal(self, sealed: Any, arguments: State) -> State:
        """The position that this rank goes on from.

        Raises:
            StateError: the state is damaged, of other arguments, or of another rank.
        """
        rank, size = self._meeting.rank, self._meeting.size
        pad = self._uneven == "pad"
        return states.unseal(sealed, arguments, rank, size, pad=pad)


def _said(get: Callable[[], Any]) -> list[Any]:
    try:
        return [get(), ""]
    except TypeError as error:
        return [None, message(error)]


def _end(loader: weakref.ref[Any]) -> None:
    alive = loader()
    if alive is not None:
        alive._end_together()
