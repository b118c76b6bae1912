"""An epoch that was begun: what feeds its buffer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from echobuf import state
from echobuf._engine.termination import upstream_failed
from echobuf.buffer import EchoBuffer
from echobuf.errors import UpstreamError
from echobuf.loader.feeder import Feeder
from echobuf.loader.upstream import Start
from echobuf.loader.upstream_states import Positions


class EpochFeed:
    """An epoch whose upstream was begun; dropping it stops that upstream.

    The loader holds it until the first batch is drawn, so that an iterator that was
    made and dropped again (some trainers try whether a loader can be iterated) has
    not used up an epoch.

    Args:
        number: of the epoch.
        resume: the state that it goes on from.
        buffer: None if upstream yielded nothing, or failed.
        feeder: the thread that feeds it.
        cause: what upstream raised, if it could not be begun.
        snapshots: completes positions in it.
        pool: the worker processes that feed it, which end when nothing refers to it.
        describe: returns what it waits for, when no example comes.

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
        snapshots: Positions | None = None,
        pool: Any = None,
        describe: Callable[[], str] | None = None,
    ) -> None:
        self.number = number
        self.resume = resume
        self._cause = cause
        self.given_up = False
        self.buffer = buffer
        self.feeder = feeder
        self.snapshots = snapshots
        self._pool = pool
        self._describe = describe

    def to_skip(self) -> int:
        """Return how many fresh examples before a loaded state are still to come."""
        return 0 if self.feeder is None else self.feeder.to_skip()

    def describe(self) -> str:
        """Return what it waits for, when no example comes."""
        return "" if self._describe is None else self._describe()

    @property
    def error(self) -> UpstreamError | None:
        """The error that a draw raises, if upstream could not be begun."""
        if self._cause is None:
            return None
        if type(self._cause) is UpstreamError:  # that says it
            return UpstreamError(*self._cause.args)
        return upstream_failed(self._cause)

    def end(self) -> None:
        """End its upstream; wait until the current call of that returns."""
        if self.feeder is not None:
            self.feeder.end()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # As the interpreter goes away its threads have ended, and modules are gone.
        if getattr(self, "feeder", None) is not None and not is_finalizing():
            self.feeder.stop()  # type: ignore[union-attr]


@dataclass(frozen=True)
class EpochAhead:
    """The next epoch of a loader, begun early; dropping it stops its upstream.

    Attributes:
        number: of the epoch.
        start: what came of beginning upstream.
        run: what feeds the buffer already; None if nothing does.
    """

    number: int
    start: Start
    run: EpochFeed | None

    def cancel(self) -> None:
        """End its upstream; wait until the current call of that returns."""
        if self.run is not None:
            self.run.end()
