"""Several ranks in one process: a thread each, over a store in memory."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from echobuf.ranks import coordinator
from echobuf.ranks.liveness import Liveness
from echobuf.ranks.store import RankStore

_here = threading.local()


class RankThreads:
    """`size` ranks, whose `echobuf.torch.EchoLoader`s share a store."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.store = dist.HashStore()
        self.liveness: dict[int, Liveness] = {}

    def run(self, rank_does: Callable[[int], Any], timeout: float = 60) -> list[Any]:
        """Return what each rank has returned or raised."""
        results: list[Any] = [None] * self.size
        threads = [
            threading.Thread(target=self._run, args=(rank, rank_does, results))
            for rank in range(self.size)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout)
            assert not thread.is_alive(), f"a rank still waits: {results}"
        return results

    def _run(self, rank: int, rank_does: Any, results: list[Any]) -> None:
        _here.rank, _here.threads, _here.numbers = rank, self, itertools.count()
        try:
            results[rank] = rank_does(rank)
        except Exception as error:
            results[rank] = error

    def rank_store(self, rank: int, number: int = 0) -> RankStore:
        """Return the store of the loader with this number, as a rank sees it."""
        store = dist.PrefixStore(str(number), self.store)
        if rank not in self.liveness:
            self.liveness[rank] = Liveness(self.store, list(range(self.size)), rank)
        return RankStore(store, self.liveness[rank], number, timeout=1800)


def join_threads(_: Any = None) -> RankStore:
    """Return the store of this thread's next loader, in place of a process group's."""
    return _here.threads.rank_store(_here.rank, next(_here.numbers))


def patch(monkeypatch: Any) -> None:
    """Let the ranks of loaders with `uneven` be threads."""
    monkeypatch.setattr(coordinator, "join_group", join_threads)
