"""`Stats`: counts and times of a buffer in this epoch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from echobuf.repeats import Repeats


@dataclass(frozen=True)
class Stats:
    """Counts and times of a buffer since it was made, reset, or loaded a state.

    With `unit="batch"`, examples are whole batches here, but for
    `mean_rows` and `padding_share`.

    Attributes:
        fresh: fresh examples put (those before a loaded state counted in).
        served: draws handed out.
        effective_factor: served / fresh; 0.0 before the first put.
        passes: passes over the window begun.
        resident: examples in the ring, the segment being filled counted in; at the end
            of an epoch those whose slots nothing has asked for yet.
        bytes_device: bytes of memory on an accelerator; 0 on the CPU.
        bytes_host: bytes of host memory: the ring, batches made ahead, and batch memory
            kept for the next batch. Batches that you hold are yours.
        put_wait_s: seconds that producers have waited for room; worker processes, while
            none of them had an example to make.
        next_wait_s: seconds that consumers have waited for a batch.
        t_upstream_s: seconds of upstream's own time for a fresh example: from the first
            arrival until `close`, or now, without the waits for room, over the
            examples that arrived after the first `put`. NaN until there is one.
        t_downstream_s: seconds of the consumer's own time for a draw: from each return
            of `next_batch` to its next call, over the draws handed out. NaN until
            it is called for a second batch.
        ratio: R = t_upstream_s / t_downstream_s; NaN until both are known.
        wait_share: the share of the consumer's time, draws counted in, that it has
            waited in `next_batch`; 0.0 before the first call.
        payload_bytes: bytes that the ragged leaves of resident examples take, alignment
            and what a record leaves free at the end of the ring counted in.
        payload_capacity: bytes that they can take at most: `payload_bytes=` of the
            buffer, and room for the segment that is being filled. Both are 0 without
            ragged leaves, and for a job of a server, in whose memory they lie.
        mean_rows: rows of a fresh example, the mean over its ragged leaves and over
            the examples that draws have looked at. NaN before the first.
        padding_share: the share of the rows of ragged leaves in the batches drawn that
            is padding (of `"padded"`, `pad_to` and `pack_to`). NaN before the first.
        mean_worth: worth of a draw, in fresh examples, by a formula for repeats: from 0
            to 1, `echobuf.analysis.Repeats().mean_worth(effective_factor)`. It knows
            the uses in this epoch only, on average: an upper bound where some examples
            are used more often than others, as while the window fills.
        expired: draws that were given up, of records older than `max_staleness` allows.

    Comparing two `Stats` leaves out `t_upstream_s`, `t_downstream_s`, `ratio` and
    `wait_share`, which go by clocks that move on while nothing happens, and
    `mean_rows` and `padding_share`, which may be NaN. With `pack_to`, `served` counts
    the examples of the rows that were handed out: those in rows that are still open
    have left the window, and are counted later. With several producers `t_upstream_s`
    is of all of them together, with several consumers `t_downstream_s`; both then take
    it that the threads of a side are alike.

    Examples:
        >>> loader = EchoLoader(range(100), batch_size=10, factor=3)
        >>> for batch in loader:
        ...     pass
        >>> stats = loader.stats()
        >>> stats.fresh, stats.served, stats.effective_factor
        (100, 300, 3.0)
        >>> round(stats.mean_worth, 2)  # a draw is worth 0.96 fresh examples
        0.96
    """

    fresh: int
    served: int
    effective_factor: float
    passes: int
    resident: int
    bytes_device: int
    bytes_host: int
    put_wait_s: float
    next_wait_s: float
    t_upstream_s: float = field(default=math.nan, compare=False)
    t_downstream_s: float = field(default=math.nan, compare=False)
    ratio: float = field(default=math.nan, compare=False)
    wait_share: float = field(default=0.0, compare=False)
    payload_bytes: int = 0
    payload_capacity: int = 0
    mean_rows: float = field(default=math.nan, compare=False)
    padding_share: float = field(default=math.nan, compare=False)
    mean_worth: float = 1.0
    expired: int = 0


_REPEATS = Repeats()
Counts = tuple[int, int, int, int, int, int]
Clocks = tuple[float, float, float, float, float, float]
Payload = tuple[int, int, float, float]
Raw = tuple[Counts, Clocks, Payload, int]
NOTHING: Raw = (
    (0, 0, 0, 0, 0, 0),
    (0.0, 0.0, math.nan, math.nan, math.nan, 0.0),
    (0, 0, math.nan, math.nan),
    0,
)


_NAMES = (
    *("fresh", "served", "passes", "resident", "bytes_device", "bytes_host"),
    *("put_wait_s", "next_wait_s", "t_upstream_s", "t_downstream_s", "ratio"),
    *("wait_share", "payload_bytes", "payload_capacity", "mean_rows", "padding_share"),
)


def make_stats(raw: Raw) -> Stats:
    """Return `Stats` of the tuples that the core returns."""
    counts, clocks, payload, expired = raw
    named: dict[str, Any] = dict(
        zip(_NAMES, (*counts, *clocks, *payload), strict=True), expired=expired
    )
    effective_factor = named["served"] / named["fresh"] if named["fresh"] else 0.0
    return Stats(
        **named,
        effective_factor=effective_factor,
        mean_worth=_REPEATS.mean_worth(effective_factor),
    )
