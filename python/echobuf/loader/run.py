"""An epoch of upstream that was begun, whoever draws from it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from echobuf import state
from echobuf.buffer import EchoBuffer
from echobuf.codes import upstream_failed
from echobuf.errors import UpstreamError
from echobuf.loader.feeder import Feeder
from echobuf.loader.snapshots import Snapshots

if TYPE_CHECKING:
    from echobuf.workers.crew import Crew


class Run:
    """What was begun for one epoch; dropping it stops its upstream.

    The loader holds it until the first batch is drawn, so that an iterator that was
    made and dropped again (some trainers try whether a loader can be iterated) has
    not used up an epoch.

    Args:
        number: of the epoch.
        resume: the state that it goes on from.
        buffer: None if upstream yielded nothing, or failed.
        feeder: the thread that feeds it.
        cause: what upstream raised, if it could not be begun.
        snapshots: of upstream, if it has a state.
        crew: the worker processes that feed it, which end when nobody holds them.

    Attributes:
        given_up: whether `set_epoch` has asked for another epoch in its place.
    """

    def __init__(
        self,
        number: int,
        resume: state.State | None,
        buffer: EchoBuffer | None = None,
        feeder: Feeder | None = None,
        cause: BaseException | None = None,
        snapshots: Snapshots | None = None,
        crew: Crew | None = None,
    ) -> None:
        self.number = number
        self.resume = resume
        self._cause = cause
        self.given_up = False
        self.buffer = buffer
        self.feeder = feeder
        self.snapshots = snapshots
        self._crew = crew

    @property
    def error(self) -> UpstreamError | None:
        """What a draw raises, if upstream could not be begun."""
        if self._cause is None:
            return None
        if type(self._cause) is UpstreamError:  # that says it
            return UpstreamError(*self._cause.args)
        return upstream_failed(self._cause)

    def end(self) -> None:
        """Ends its upstream; waits until the current call of that returns."""
        if self.feeder is not None:
            self.feeder.end()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # As the interpreter goes away its threads have ended, and modules are gone.
        if getattr(self, "feeder", None) is not None and not is_finalizing():
            self.feeder.stop()  # type: ignore[union-attr]
