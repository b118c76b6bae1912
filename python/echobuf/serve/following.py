"""The thread that brings what a server has published into a loader's ring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from echobuf import _core
from echobuf.buffer import EchoBuffer
from echobuf.errors import EchobufError
from echobuf.loader.feeder import Feeder

if TYPE_CHECKING:
    from echobuf.serve.link import Link

_SLICE_S = 0.25


class FollowFeeder(Feeder):
    """Feeds one epoch from a server; else as `Feeder`.

    Args:
        buffer: open, for this epoch.
        follower: that has begun it.
        link: to the server.
        epoch: of the server.
    """

    def __init__(
        self, buffer: EchoBuffer, follower: _core.Follower, link: Link, epoch: int
    ) -> None:
        self._follower = follower
        self._link = link
        self._epoch = epoch
        self._term = follower.term()
        super().__init__(
            buffer,
            iter(()),
            None,
            batched=False,
            read=_as_it_is,
            skipped=0,
            snapshots=None,
        )

    def stop(self) -> None:
        """Tells the thread to end, and does not wait for it."""
        self._stopped.set()
        if self._thread.is_alive() and not self._ended:
            # In this order: nothing is served of slots that are given up.
            self._buffer._abandon()
            self._link.place.leave(self._epoch + 1)  # what is still to come, too

    def _run(self, items: object, item: object) -> None:
        try:
            code = _core.FOLLOWED_TIMEOUT
            while code == _core.FOLLOWED_TIMEOUT and not self._stopped.is_set():
                self._link.raise_for(code)
                code = self._follower.follow(self._term, self._epoch, _SLICE_S)
            if code == 0:
                self._ended = True
                self._buffer.close()
            elif code != _core.FOLLOWED_CLOSED and not self._stopped.is_set():
                self._link.raise_for(code)
        except EchobufError as error:
            self._buffer.fail(error)


def _as_it_is(item: object) -> object:
    return item
