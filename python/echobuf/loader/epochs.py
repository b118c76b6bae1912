"""The epochs of a loader: one state machine, drawn in docs/reasons.md.

    between -- begin --> begun -- first draw --> drawn -- last draw --> between
                           |                       |
                           +---- superseded -------+----> (ended)

While an epoch is drawn, the upstream of the next may be begun early.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

from echobuf import state
from echobuf.loader.epoch import EpochFeed, EpochIterator, weakly
from echobuf.loader.starter import EpochStarter
from echobuf.loader.states import locate
from echobuf.loader.thread import closed_error
from echobuf.loader.upstream import EpochForwarder


class Epochs:
    """The epoch that a loader is in, and the number of the next one.

    Args:
        starter: begins each epoch's upstream, and the buffer.
        forwarded: passes numbers of epochs on to upstream.
        overlap: begin the next epoch's upstream while the last window is drawn.

    Attributes:
        begun: an epoch that was begun, and of which no batch was drawn; else None.
        next_number: of the epoch that the next `begin` begins.
        is_between: no epoch is under way; `next_number` has not begun.
        resume: a state that was loaded for the next epoch.
    """

    def __init__(
        self, starter: EpochStarter, forwarded: EpochForwarder, *, overlap: bool
    ) -> None:
        self._starter = starter
        self._forwarded = forwarded
        self._overlap = overlap
        self._iterator: weakref.ref[EpochIterator] | None = None
        self._base = 0  # fresh examples before those that the buffer counts
        self._is_closed = False
        self.begun: EpochFeed | None = None
        self.next_number = 0
        self.is_between = True
        self.resume: state.State | None = None

    def resumed_arguments(self) -> state.State | None:
        """Return the arguments in the state that was loaded for the next epoch."""
        return None if self.resume is None else dict(self.resume["arguments"])

    # ---- the number

    def count(self) -> int:
        """Return the number of the epoch under way, else of the next one."""
        if self.begun is not None:
            return self.begun.number
        current = self.current()
        if current is not None and not self.is_between:
            return current.number
        return self.next_number if self.resume is None else self.resume["epoch"]

    def set_number(self, number: int) -> None:
        """Fix the number of the epoch that comes next, and pass it on to upstream.

        An epoch that was begun and not drawn from is begun anew with that number. A
        loaded state stays loaded if it is of that epoch.
        """
        changed = self._forwarded.set(number)
        if changed:
            self._starter.cancel_early()
        feed = self.begun
        if feed is not None and (changed or feed.number != number):
            self._give_up(feed)
        if self.resume is not None and self.resume["epoch"] != number:
            self.resume = None
        self.next_number = number
        if self.begun is None and self.current() is None:
            self.is_between = True

    # ---- begin

    def take_over(self) -> EpochFeed | None:
        """Return the epoch that was begun and not drawn from, if it is wanted.

        It is wanted if its iterator was dropped, or `set_number` has named it since.
        """
        feed, current = self.begun, self.current()
        if feed is None or (current is not None and self.next_number != feed.number):
            return None
        if current is not None:
            current.give_way()
        self.next_number = feed.number + 1
        return feed

    def begin(self) -> EpochFeed:
        """Begin the next epoch.

        Raises:
            UpstreamError, SpecError, CapacityError, StateError: as
                `EpochStarter.begin`; the epoch can be begun again.
            ClosedError: the loader was closed meanwhile, by another thread.
        """
        resume, self.resume = self.resume, None
        number = self.next_number if resume is None else resume["epoch"]
        self.next_number = number + 1
        self.is_between = False
        self._base = 0 if resume is None else resume.get("base", 0)
        try:
            feed = self._starter.begin(number, resume)
        except BaseException:
            self.take_back(number, resume)
            raise
        if self._is_closed:
            feed.end()
            raise closed_error()
        if feed.error is None:
            self.begun = feed
        else:
            self.take_back(number, resume)
        return feed

    def iterate(self, feed: EpochFeed, served_out: Callable[[], None]) -> EpochIterator:
        """Return an iterator over an epoch.

        Args:
            feed: of the epoch.
            served_out: called at its end; must not keep the loader alive.
        """
        iterator = EpochIterator(
            feed,
            weakly(self._draw_first, lambda feed: feed),
            served_out,
            weakly(self.begin_early, lambda: True) if self._overlap else None,
        )
        self._iterator = weakref.ref(iterator)
        return iterator

    def begin_early(self) -> bool:
        """Begin the next epoch's upstream; return True when nothing is left to do."""
        return self._is_closed or self._starter.begin_early(self.next_number)

    def _draw_first(self, feed: EpochFeed) -> EpochFeed:
        """Return the feed to draw from: the one begun, or a new one if it was given up.

        Called before the first draw.
        """
        if feed.given_up:
            feed = self.begin() if self.begun is None else self.begun
        if feed is self.begun:
            self.next_number = max(self.next_number, feed.number + 1)
            self.begun = None
        return feed

    def take_back(self, number: int, resume: state.State | None) -> None:
        """Undo the beginning of an epoch, so that it can be tried again."""
        self.next_number, self.resume, self.is_between = number, resume, True

    def _give_up(self, feed: EpochFeed) -> None:
        """End an epoch that was not drawn from; its first draw begins it anew."""
        self.begun = None
        feed.given_up = True
        feed.end()
        self.take_back(feed.number, feed.resume)

    # ---- end

    def current(self) -> EpochIterator | None:
        """Return the iterator that was made last, while something refers to it."""
        return None if self._iterator is None else self._iterator()

    def count_fresh(self) -> int | None:
        """Return how many fresh examples have come in the epoch; None if none has."""
        buffer = self._starter.buffer
        return None if buffer is None else self._base + buffer.stats().fresh

    def served_out(self) -> None:
        """Note that the end of the epoch has been drawn."""
        self.is_between = True

    def end(self) -> None:
        """End the epoch under way, and wait for its thread."""
        current, feed = self.current(), self.begun
        self.begun = None
        if current is not None:
            current.supersede()
        elif feed is not None:
            feed.end()
        self._starter.join()

    def refuse(self) -> None:
        """Refuse epochs from now on: the loader closes."""
        self._is_closed = True
        current = self.current()
        if current is not None:
            current.loader_closes()

    # ---- positions

    def load(self, position: state.State) -> None:
        """Continue at a position in the next epoch."""
        self._starter.cancel_early()
        self.next_number = position["epoch"]
        self.resume = position
        self.is_between = True

    def position(self) -> state.State:
        """Return the position of the batches handed out, with upstream's state."""
        resume = self.resume
        if resume is not None:
            return resume
        positions = self._starter.positions  # before: they may be of the next epoch
        if self.is_between or self._starter.buffer is None:
            return positions.with_end(state.start_of(self.next_number))
        return positions.at(self._locate)

    def _locate(self) -> state.State:
        buffer = self._starter.buffer
        assert buffer is not None
        count = self._starter.count()
        at = locate(buffer, None if count is None else count - self._base)
        if at["epoch"] == buffer.epoch:  # else it is the start of the next one
            at["base"] = self._base
        return at
