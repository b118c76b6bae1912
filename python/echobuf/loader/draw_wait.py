"""The report of a wait for the next batch of an epoch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from echobuf._engine.waits import needed_after
from echobuf.errors import EchobufError
from echobuf.loader_buffer import LoaderBuffer
from echobuf.progress import Wait, show_seconds
from echobuf.stats import NOTHING, Stats, make_stats

if TYPE_CHECKING:
    from echobuf.loader.epoch import EpochFeed


class DrawWait:
    """A wait for the next batch of an epoch; `tick` is called while it lasts.

    Args:
        buffer: that is drawn from.
        feed: feeds it.
        begun_s: seconds that the wait has lasted already.
    """

    def __init__(self, buffer: LoaderBuffer, feed: EpochFeed, begun_s: float) -> None:
        self._buffer = buffer
        self._feed = feed
        self._wait = Wait("batch", begun_s)
        self._began = self._changed_at = time.monotonic()
        self._first = self._last = self._count()

    def tick(self) -> None:
        """Note the progress of upstream, and report the wait if it is time to."""
        count = self._count()
        if count != self._last:
            self._last, self._changed_at = count, time.monotonic()
        # Given here: the loader's parts are released without a collection of cycles.
        self._wait.tick(self._describe)

    def _count(self) -> int:
        """Return how many items upstream has yielded, skipped ones counted in."""
        return self._stats().fresh - self._feed.to_skip()

    def _stats(self) -> Stats:
        try:
            return self._buffer.stats()
        except EchobufError:  # the next draw raises it
            return make_stats(NOTHING)

    def _describe(self) -> str:
        what = self._buffer.options.noun
        stats = self._stats()
        served, fresh = stats.served, stats.fresh
        target = "a batch" if served else "the first batch"
        skip = self._feed.to_skip()
        if skip:
            have = f"{skip:,} {what} before the loaded state are still to be skipped"
            left = skip
        else:
            resume = self._feed.resume
            least = 0
            if resume is not None and resume["position"] is not None:
                least = resume["position"]["resident_end"]
            need = needed_after(self._buffer.options, fresh, least)
            to_fill = "" if served else " of the window"
            have = f"{fresh:,} of {need:,} fresh {what}{to_fill} are there"
            left = need - fresh
        return f"{target}: {have}, {self._show_rate(left)}"

    def _show_rate(self, left: int) -> str:
        now = time.monotonic()
        idle, whole = now - self._changed_at, now - self._began
        if self._last == self._first or 2 * idle > whole:
            more = self._feed.describe_wait()
            return f"none has come for {show_seconds(idle)}: {more}"
        rate = (self._last - self._first) / whole
        return f"{rate:.3g}/s, about {show_seconds(left / rate)} to go"
