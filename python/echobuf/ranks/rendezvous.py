"""The rendezvous of the ranks at the beginning of an epoch."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from echobuf.loader.epoch import EpochFeed, EpochIterator
from echobuf.ranks import states
from echobuf.ranks.agreement import Agreement, Agreements
from echobuf.ranks.states import Progress, State


@dataclass(frozen=True)
class LoaderCallbacks:
    """Methods of a loader that an epoch calls; the loader is referenced weakly.

    Attributes:
        arguments: returns the loader's; known when an epoch has begun.
        write_length: writes the epoch's length for the other ranks.
        take_back: undoes the beginning of an epoch that the ranks did not begin.
        end_epoch: ends the epoch when all ranks have handed out its last batch.
    """

    arguments: Callable[[], State]
    write_length: weakref.WeakMethod[Callable[[], None]]
    take_back: weakref.WeakMethod[Callable[[int, Any], None]]
    end_epoch: weakref.WeakMethod[Callable[[], None]]


class Rendezvous:
    """The rendezvous of one epoch; it may be called again after Ctrl-C.

    Attributes:
        agreement: on the epoch; None before the first call.
    """

    def __init__(self, agreements: Agreements, callbacks: LoaderCallbacks) -> None:
        self.agreement: Agreement | None = None
        self._previous: Agreement | None = None  # on the epoch before
        self._agreements = agreements
        self._callbacks = callbacks

    def __call__(self, epoch: EpochIterator) -> tuple[Agreement, Progress]:
        """Begin the epoch on all ranks; return the agreement and this rank's progress.

        Raises:
            OptionError, StateError, UpstreamError: as `Agreement.begin`; or as a draw,
                if upstream could not be begun here.
        """
        if self.agreement is None:
            self._previous = self._agreements.last
            self.agreement = self._agreements.begin()
        run = self._start(epoch, self.agreement)
        arguments = self._callbacks.arguments()
        progress = states.begin_progress(run.resume, run.number, arguments["seed"])
        self._agreements.follow(self.agreement, progress)
        # The length may be known with the first item only.
        if (write_length := self._callbacks.write_length()) is not None:
            write_length()
        compared = self._agreements.compared_arguments(arguments)
        try:
            self.agreement.begin(run.number, progress.before, progress.at, compared)
        except Exception:
            epoch.supersede()
            if (take_back := self._callbacks.take_back()) is not None:
                take_back(run.number, run.resume)
            raise
        if self._previous is not None:
            self._previous.forget()
        return self.agreement, progress

    def _start(self, epoch: EpochIterator, agreement: Agreement) -> EpochFeed:
        try:
            run = epoch.start()
            if run.error is not None:
                raise run.error
        except Exception as error:
            agreement.cannot_begin(error)
            raise
        return run
