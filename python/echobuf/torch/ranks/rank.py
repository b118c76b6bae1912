"""A loader's place among the ranks that train together."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any

from echobuf.errors import UpstreamError
from echobuf.loader.epoch import Epoch
from echobuf.torch.ranks import states
from echobuf.torch.ranks.group import meet
from echobuf.torch.ranks.progress import Progress, State
from echobuf.torch.ranks.session import Session
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
        self._sessions = 0
        self._together: weakref.ref[Together] | None = None
        self._progress: Progress | None = None

    # ---- epochs

    def begin_session(self) -> Session:
        """What the ranks have to say to each other from now on."""
        self._sessions += 1
        return Session(self._meeting, self._sessions)

    def begin(
        self,
        session: Session,
        epoch: Epoch,
        resume: State | None,
        number: int,
        arguments: State,
        finished: Callable[[], None],
    ) -> Together:
        """The epoch that all ranks have begun; waits for them.

        Args:
            session: for it.
            epoch: of this rank.
            resume: the position that it goes on from.
            number: of the epoch.
            arguments: of the loader.
            finished: called once, when the epoch has come to its end.

        Raises:
            OptionError, StateError, UpstreamError: as `Session.begin`.
        """
        progress = states.progress_from(resume, number, arguments)
        same = {
            **{name: arguments[name] for name in arguments if name != "seed"},
            "uneven": self._uneven,
        }
        session.begin(number, progress.before, progress.served(), same)
        together = Together(
            epoch,
            session,
            progress,
            pad=self._uneven == "pad",
            ahead=self._ahead,
            finished=finished,
        )
        self._progress = progress
        self._together = weakref.ref(together)
        return together

    def cannot_begin(self, session: Session, error: BaseException) -> None:
        """Tells the other ranks why this one does not come."""
        with contextlib.suppress(UpstreamError):  # nobody is there to be told
            session.cannot_begin(error)

    def supersede(self) -> None:
        """Ends the current epoch for good."""
        together = None if self._together is None else self._together()
        if together is not None:
            together.supersede()

    # ---- length

    def say_length(self, count: Callable[[], int]) -> None:
        """Tells the other ranks how many batches an epoch has here, or why not."""
        try:
            said: list[Any] = [count(), ""]
        except TypeError as error:
            said = [None, str(error)]
        self._meeting.set(f"length/{self._meeting.rank}", said)

    def count_batches(self) -> int:
        """The number of batches in an epoch; waits until all ranks have a loader.

        Raises:
            TypeError: it is not known on all ranks.
        """
        said = self._meeting.wait_for(
            lambda: self._meeting.get_all("length"), "all ranks to make a loader"
        )
        for rank, (count, why) in zip(self._meeting.members, said, strict=True):
            if count is None:
                raise TypeError(f"on rank {rank} {why}")
        counts: list[int] = [count for count, _ in said]
        return max(counts) if self._uneven == "pad" else min(counts)

    # ---- states

    def position(self) -> State | None:
        """Where the batches handed out have come to; None before any epoch."""
        if self._progress is None:
            return None
        return states.of_progress(self._progress, *self._place)

    def start_of(self, epoch: int) -> State:
        """The start of an epoch."""
        return states.at_start(epoch, *self._place)

    def unseal(self, sealed: Any, arguments: State) -> State:
        """The position that this rank goes on from.

        Raises:
            StateError: the state is damaged, of other arguments, or of another rank.
        """
        return states.unseal(sealed, arguments, *self._place)

    @property
    def _place(self) -> tuple[int, int]:
        return self._meeting.rank, self._meeting.size
