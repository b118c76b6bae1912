"""`CacheStats`: what a cache holds and has done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CacheStats:
    """What a cache holds, and what all processes that share it have asked of it.

    Attributes:
        hits: items served from the cache.
        misses: items read from the source.
        damaged: of the misses, those whose stored item was damaged.
        items: items stored; those of other processes count once they are written.
        bytes: bytes of these, with what says how to read them.
        max_bytes: what they may come to.
        read_only: whether nothing is added, since the directory cannot be written to.
    """

    hits: int
    misses: int
    damaged: int
    items: int
    bytes: int
    max_bytes: int
    read_only: bool

    @property
    def hit_rate(self) -> float:
        """Hits / (hits + misses); 0.0 before the first item."""
        return self.hits / max(1, self.hits + self.misses)
