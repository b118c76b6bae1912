"""`PartitionedStats`: what a rank's share of a cache holds and has done."""

from __future__ import annotations

from dataclasses import dataclass

from echobuf.cache.stats import CacheStats


@dataclass(frozen=True)
class PartitionedStats(CacheStats):
    """What a rank holds, and what all processes of this rank have asked for.

    Attributes:
        hits: items served from this rank's own cache.
        misses: items read from the source.
        from_peers: items that other ranks have sent.
        peer_bytes: bytes of these.
        given: items read from the source here and sent to the rank that keeps them.
        given_bytes: bytes of these.
        lost: ranks that did not answer, and are asked no more.
    """

    from_peers: int
    peer_bytes: int
    given: int
    given_bytes: int
    lost: tuple[int, ...]

    @property
    def hit_rate(self) -> float:
        """The share of items that did not come from the source; 0.0 before any."""
        kept = self.hits + self.from_peers
        return kept / max(1, kept + self.misses)
