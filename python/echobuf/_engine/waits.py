"""Waits of a buffer's callers for each other, in words."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable

from echobuf import _core
from echobuf.options import Options


def segment_starts(options: Options) -> tuple[Callable[[int], int], int]:
    """Return where segment i begins, and how many fresh examples the ring holds."""
    window = options.window
    if options.ratio is None:
        auto = _core.AutoSchedule(window, options.batch_size, options.max_factor)
        return auto.start, auto.capacity
    num, den = options.ratio
    capacity = _core.fixed_capacity(window, num, den)
    return (lambda i: _core.fixed_segment_start(window, num, den, i)), capacity


def needed_after(options: Options, fresh: int, least: int = 0) -> int:
    """Return the number of fresh examples with which a wait at `fresh` ends.

    Args:
        options: the buffer's.
        fresh: examples that are there.
        least: as many are needed in any case.
    """
    if options.ratio is None:  # the first pass is over a quarter of the window
        least = max(least, (options.window + 3) // 4, options.batch_size)
    if fresh < least:
        return least
    start_of, _ = segment_starts(options)
    most = 1
    while start_of(most) <= fresh:
        most *= 2
    return start_of(bisect.bisect_right(range(most), fresh, key=start_of))


def show_fresh(options: Options, fresh: int) -> str:
    """Return how many fresh examples are there, of those that a draw waits for."""
    need = needed_after(options, fresh)
    return f"{fresh:,} of {need:,} fresh {options.noun} are there"


def show_full(options: Options, fresh: int, served: int) -> str:
    """Return what is in a ring that is full."""
    return f"{fresh:,} {options.noun} were put, and {served:,} draws served"


def waits_for_itself(drawn_by: int | None) -> bool:
    """Return True if no other thread draws from a ring that this thread found full.

    Args:
        drawn_by: the thread of the last draw, if there was any.
    """
    if drawn_by is not None:
        return drawn_by == threading.get_ident()
    others = (each.name != "echobuf-progress" for each in threading.enumerate())
    return sum(others) == 1
