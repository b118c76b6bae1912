"""`Stats`: what a buffer has done in this epoch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stats:
    """What a buffer has done since it was made, reset, or loaded a state.

    With `unit="batch"`, examples are whole batches here.

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
        put_wait_s: seconds that producers have waited for room.
        next_wait_s: seconds that consumers have waited for a batch.
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


Raw = tuple[int, int, int, int, int, int, float, float]
NOTHING: Raw = (0, 0, 0, 0, 0, 0, 0.0, 0.0)


def make_stats(raw: Raw) -> Stats:
    """From the tuple that the core gives."""
    fresh, served, passes, resident, bytes_device, bytes_host, *waits = raw
    put_wait_s, next_wait_s = waits
    return Stats(
        fresh=fresh,
        served=served,
        effective_factor=served / fresh if fresh else 0.0,
        passes=passes,
        resident=resident,
        bytes_device=bytes_device,
        bytes_host=bytes_host,
        put_wait_s=put_wait_s,
        next_wait_s=next_wait_s,
    )
