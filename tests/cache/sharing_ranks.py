"""Ranks that share a cache, each a thread of this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cache_data import Numbered, check
from echobuf.cache.distributed import PartitionedDataset, membership
from ranks.rank_threads import RankThreads, join_threads


def patch(monkeypatch: Any) -> None:
    """Let the ranks of caches be threads."""
    monkeypatch.setattr(
        membership, "join_group", lambda group, **_: join_threads(group)
    )


class Sharing:
    """The caches of several ranks, each with a separate source.

    Args:
        ranks: how many.
        arguments: returns those of a rank's cache; without it they are the same.
    """

    def __init__(
        self,
        ranks: int,
        arguments: Callable[[int], dict[str, Any]] = lambda rank: {},
        source: Callable[[], Any] = Numbered,
    ) -> None:
        self.sources = [source() for _ in range(ranks)]
        self.threads = RankThreads(ranks)
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
        """The numbers of all items that a rank has read from its source."""
        return sorted(number for each in self.sources for number in each.reads)

    def run(self, rank_does: Callable[[int, PartitionedDataset], Any]) -> list[Any]:
        """Return what each rank has returned; raise the first error."""
        results = self.threads.run(lambda rank: rank_does(rank, self.caches[rank]))
        for each in results:
            if isinstance(each, Exception):
                raise each
        return results

    def sum(self, name: str) -> int:
        """Return the sum of a figure of the stats, over all ranks."""
        return sum(getattr(cache.stats(), name) for cache in self.caches)

    def listening(self, rank: int) -> tuple[str, int]:
        """Return the address at which a rank's server listens."""
        host, port = self._read(f"listens/{rank}")
        return host, port

    def token(self) -> bytes:
        """Return the token of these ranks."""
        return bytes.fromhex(self._read("made/0")["token"])

    def _read(self, key: str) -> Any:
        return self.threads.rank_store(0).get(key)["made"]

    def close(self) -> None:
        for made in self.made:
            if not isinstance(made, Exception):
                made.close()


def read(cache: Any, numbers: Any) -> None:
    for number in numbers:
        check(cache[number], number)
