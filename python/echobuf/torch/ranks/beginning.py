"""The beginning of an epoch, which all ranks come to."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from echobuf.loader.epoch import Epoch
from echobuf.loader.run import Run
from echobuf.torch.ranks import states
from echobuf.torch.ranks.place import State
from echobuf.torch.ranks.progress import Progress
from echobuf.torch.ranks.session import Session
from echobuf.torch.ranks.sessions import Sessions


class Beginning:
    """Waits for the other ranks; may be called again after Ctrl-C.

    Args:
        sessions: of the ranks.
        arguments: of the loader; known when the epoch is begun.
        loader: hears of an epoch that could not be begun.

    Attributes:
        session: what the ranks talk in; None before the first call.
        progress: of this rank.
    """

    def __init__(
        self,
        sessions: Sessions,
        arguments: Callable[[], State],
        loader: weakref.ref[Any],
    ) -> None:
        self.session: Session | None = None
        self._last: Session | None = None  # of the epoch before
        self._sessions = sessions
        self._arguments = arguments
        self._loader = loader

    def __call__(self, epoch: Epoch) -> tuple[Session, Progress]:
        """What the ranks talk in, and where this rank is.

        Raises:
            OptionError, StateError, UpstreamError: as `Session.begin`; or as a draw, if
                upstream could not be begun here.
        """
        if self.session is None:
            self._last = self._sessions.last
            self.session = self._sessions.begin()
        run = self._start(epoch, self.session)
        known = self._arguments()
        progress = states.progress_from(run.resume, run.number, known["seed"])
        self._sessions.follow(self.session, progress)
        _say_length(self._loader)
        compared = self._sessions.compared(known)
        try:
            self.session.begin(run.number, progress.before, progress.place, compared)
        except Exception:
            epoch.supersede()
            _take_back(self._loader, run)
            raise
        if self._last is not None:
            self._last.forget()
        return self.session, progress

    def _start(self, epoch: Epoch, session: Session) -> Run:
        try:
            run = epoch.start()
            if run.error is not None:
                raise run.error
        except Exception as error:
            session.cannot_begin(error)
            raise
        return run


def _say_length(loader: weakref.ref[Any]) -> None:
    """It may be known with the first item only."""
    alive = loader()
    if alive is not None:
        alive._say_length()


def _take_back(loader: weakref.ref[Any], run: Run) -> None:
    alive = loader()
    if alive is not None:
        alive._take_back(run.number, run.resume)
