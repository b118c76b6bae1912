"""Where upstream was at the places of an epoch that a resumed loader may go on from."""

from __future__ import annotations

from collections.abc import Callable

from echobuf import _core
from echobuf.describe_error import message
from echobuf.loader.stateful import Stateful
from echobuf.options import Options
from echobuf.state import State
from echobuf.upstream_state import KEY, UpstreamState

_MANY = 2**62


class Snapshots:
    """States of upstream in one epoch, for each segment the last one before it.

    What a resumed loader needs begins with a segment, so no others are taken. The
    thread that iterates upstream takes them; any other may look them up meanwhile: what
    is kept is a tuple that is replaced, never changed.

    Attributes:
        end: its state when it had ended, if it goes on with another epoch from there.
        trouble: why none are kept, if so.

    Args:
        upstream: that is iterated.
        options: of the buffer: they say where segments begin.
        epoch: its number.
        base: fresh examples before those that the buffer counts.
        offset: fresh examples before those that upstream yields.
        first: its state there, if that is known.
    """

    def __init__(
        self,
        upstream: Stateful,
        options: Options,
        epoch: int,
        base: int,
        offset: int,
        first: UpstreamState | None,
    ) -> None:
        self._upstream: Stateful | None = upstream
        self._start_of, capacity = _segments(options)
        # From the last batch handed out to the last item put: what a pass sets free
        # while batches are made ahead of it, and what the ring holds then; on a device
        # the staging ring, too, which holds a segment: what the ring has over a window.
        self._reach = 3 * capacity + options.prefetch * options.batch_size
        self._epoch = epoch
        self._base = base
        self._offset = offset
        self._kept: tuple[UpstreamState, ...] = () if first is None else (first,)
        self._segment = 0  # the first that begins at `offset` or later
        self._taken_for = -1  # the segment that the last state was taken for
        self._longest = 1  # item so far
        self.end: UpstreamState | None = None
        self.trouble: str | None = None

    def passed(self, count: int) -> None:
        """Upstream has yielded an item of so many fresh examples."""
        if self._upstream is None or not count:
            return
        self._offset += count
        self._longest = max(self._longest, count)
        while self._start() < self._offset:
            self._segment += 1
        if self._start() - self._offset < self._longest:
            self._take()

    def until_next(self) -> int:
        """Return how many examples upstream may yield, one by one, with no state taken.

        None is while its items have been of several examples.
        """
        if self._upstream is None:
            return _MANY
        return 0 if self._longest > 1 else max(0, self._start() - self._offset - 1)

    def skip(self, count: int) -> None:
        """Upstream has yielded so many examples, of which it need not be asked."""
        self._offset += count

    def _start(self) -> int:
        return self._base + self._start_of(self._segment)

    def _take(self) -> None:
        """Keeps its state; in place of the last one, if it is for the same segment."""
        assert self._upstream is not None
        try:
            new = self._upstream.take(self._offset)
        except Exception as error:
            self._give_up(f"`upstream.state_dict()` cannot be kept: {message(error)}")
            return
        kept = self._kept
        if kept and kept[-1].encoded == new.encoded:
            self._give_up(
                f"`upstream.state_dict()` is the same after {kept[-1].offset} fresh "
                f"examples as after {self._offset}"
            )
            return
        gone = self._offset - self._reach - self._longest  # the item that is being put
        while len(kept) > 1 and (kept[1].offset or 0) <= gone:
            kept = kept[1:]
        if self._taken_for == self._segment:
            kept = kept[:-1]
        self._kept, self._taken_for = (*kept, new), self._segment

    def _give_up(self, why: str) -> None:
        self.trouble, self._kept, self._upstream = why, (), None

    def ended(self) -> None:
        """Upstream has ended."""
        if self._upstream is not None:
            self.end = self._upstream.take_at(None)

    def at(self, locate: Callable[[], State]) -> State:
        """A position of the buffer, with the last state before what is needed there.

        Args:
            locate: says the position, in this epoch or at the start of the next one.
        """
        # Upstream and the batches go on meanwhile: what was there before a position was
        # found may be gone after, and what belongs to it may have come in between.
        seen = self._kept
        position = locate()
        if position["epoch"] != self._epoch:
            return _with(position, self.end)
        needed = self._base + position["fresh_offset"]
        before = [one for one in (*seen, *self._kept) if (one.offset or 0) <= needed]
        last = max(before, key=lambda one: one.offset or 0, default=None)
        return _with(position, last)


def with_upstream(locate: Callable[[], State], snapshots: Snapshots | None) -> State:
    """A position, with the state of upstream that belongs to it, if there is one."""
    return locate() if snapshots is None else snapshots.at(locate)


def with_end(position: State, snapshots: Snapshots | None) -> State:
    """The same for the start of an epoch, before upstream is begun."""
    return position if snapshots is None else _with(position, snapshots.end)


def _with(position: State, found: UpstreamState | None) -> State:
    return position if found is None else {**position, KEY: found}


def _segments(options: Options) -> tuple[Callable[[int], int], int]:
    """Where segment i begins; and the fresh examples that fit into the ring."""
    window = options.window
    if options.ratio is None:
        auto = _core.AutoSchedule(window, options.batch_size, options.max_factor)
        return auto.start, auto.capacity
    num, den = options.ratio
    capacity = _core.fixed_capacity(window, num, den)
    return (lambda i: _core.fixed_segment_start(window, num, den, i)), capacity
