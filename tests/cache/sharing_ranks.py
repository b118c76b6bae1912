"""Ranks that share a cache, each a thread of this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cache_data import Numbered, check
from echobuf.cache.distributed import PartitionedDataset, membership
from ranks.rank_threads import Threads, meet_here


def patch(monkeypatch: Any) -> None:
    """Caches meet those of the threads beside them."""
    monkeypatch.setattr(membership, "meet", lambda group, **_: meet_here(group))


class Sharing:
    """The caches of several ranks, each with a source of its own.

    Args:
        ranks: how many.
        arguments: of the cache of a rank, by its number; all the same unless told.
    """

    def __init__(
        self,
        ranks: int,
        arguments: Callable[[int], dict[str, Any]] = lambda rank: {},
        source: Callable[[], Any] = Numbered,
    ) -> None:
        self.sources = [source() for _ in range(ranks)]
        self.threads = Threads(ranks)
        self.made = self.threads.run(lambda rank: self._make(rank, arguments(rank)))

    def _make(self, rank: int, arguments: dict[str, Any]) -> PartitionedDataset:
        chosen = {"max_bytes": 10**6, **arguments}
        if chosen.get("directory") is not None:
            chosen.setdefault("identity", "numbered")
        return PartitionedDataset(self.sources[rank], **chosen)

    @property
    def caches(self) -> list[PartitionedDataset]:
        for made in self.made:
            if isinstance(made, Exception):
                raise made
        return self.made

    @property
    def reads(self) -> list[int]:
        """All that was read from the source, by any rank."""
        return sorted(number for each in self.sources for number in each.reads)

    def run(self, rank_does: Callable[[int, PartitionedDataset], Any]) -> list[Any]:
        """What each rank has returned; an error is raised."""
        told = self.threads.run(lambda rank: rank_does(rank, self.caches[rank]))
        for each in told:
            if isinstance(each, Exception):
                raise each
        return told

    def sum(self, name: str) -> int:
        """Of a figure of the stats of all ranks."""
        return sum(getattr(cache.stats(), name) for cache in self.caches)

    def close(self) -> None:
        for made in self.made:
            if not isinstance(made, Exception):
                made.close()


def read(cache: Any, numbers: Any) -> None:
    for number in numbers:
        check(cache[number], number)
