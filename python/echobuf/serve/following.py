"""The thread that brings what a server has published into a loader's ring."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from echobuf import _core
from echobuf._engine.engine import Engine
from echobuf.errors import ClosedError, DeviceError, EchobufError
from echobuf.loader.feeder import Feeder
from echobuf.serve.link import broken

if TYPE_CHECKING:
    from echobuf.serve.link import Link

_SLICE_S = 0.25


@dataclass
class Held:
    """An epoch that the server keeps for this job, which does not read it.

    Attributes:
        epoch: of the server: one that was begun and is not fed yet, or was given up
            while the epoch before it was drawn from the server's slots.
    """

    epoch: int | None = None


class FollowFeeder(Feeder):
    """Feeds one epoch from a server; else as `Feeder`.

    Args:
        engine: open, for this epoch.
        follower: that has begun it.
        link: to the server.
        epoch: of the server.
        held: where an epoch is noted that is given up while it is only ahead.
    """

    def __init__(
        self,
        engine: Engine,
        follower: _core.Follower,
        link: Link,
        epoch: int,
        held: Held,
    ) -> None:
        self._follower = follower
        self._link = link
        self._epoch = epoch
        self._held = held
        self._engine = engine
        super().__init__(
            engine,
            iter(()),
            None,
            batched=False,
            read=_as_it_is,
            skipped=0,
            snapshots=None,
            term=follower.term(),
        )

    def stop(self) -> None:
        """Tells the thread to end, and does not wait for it.

        An epoch that is only ahead is not left yet: the one before it may still be
        drawn from the server's slots.
        """
        if self._process != os.getpid():  # a fork: the seat is the parent's
            return
        self._stopped.set()
        if not self._ended:  # also where the thread ends meanwhile
            is_ahead = self._engine.is_draining()
            if is_ahead:
                self._held.epoch = self._epoch
            # In this order: nothing is served of slots that are given up.
            self._engine.abandon(self._term)
            if not is_ahead:
                self._link.place.leave(self._epoch + 1)  # what is still to come, too

    def is_stopped(self) -> bool:
        """Return whether the epoch was given up."""
        return self._stopped.is_set()

    def _run(self, items: object, item: object) -> None:
        try:
            code = _core.FOLLOWED_TIMEOUT
            while code == _core.FOLLOWED_TIMEOUT and not self._stopped.is_set():
                self._link.raise_for(code)
                code = self._follower.follow(self._term, self._epoch, _SLICE_S)
            if code == 0:
                self._ended = True
                self._engine.close()
            elif code != _core.FOLLOWED_CLOSED and not self._stopped.is_set():
                self._link.raise_for(code)
        except BaseException as error:  # nothing may leave the job waiting for ever
            if not isinstance(error, EchobufError):
                error = broken(self._link.name, error)
            if not self._stopped.is_set():
                # A buffer that was left, or whose device is gone, says so itself.
                with contextlib.suppress(ClosedError, DeviceError):
                    self._engine.fail(error)


def _as_it_is(item: object) -> object:
    return item
