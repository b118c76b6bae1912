"""Several ranks in one process: a thread each, which meet in a store in memory."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from echobuf.torch.ranks import rank as rank_module
from echobuf.torch.ranks.meeting import Meeting
from echobuf.torch.ranks.roll import Roll

_here = threading.local()


class Threads:
    """`size` ranks. `echobuf.torch.EchoLoader`s that they make know each other."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.store = dist.HashStore()

    def run(self, rank_does: Callable[[int], Any], timeout: float = 60) -> list[Any]:
        """What each rank has returned or raised."""
        results: list[Any] = [None] * self.size
        threads = [
            threading.Thread(target=self._run, args=(rank, rank_does, results))
            for rank in range(self.size)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout)
            assert not thread.is_alive(), f"a rank waits for ever: {results}"
        return results

    def _run(self, rank: int, rank_does: Any, results: list[Any]) -> None:
        _here.rank, _here.threads, _here.numbers = rank, self, itertools.count()
        try:
            results[rank] = rank_does(rank)
        except Exception as error:
            results[rank] = error

    def meeting(self, rank: int, number: int = 0) -> Meeting:
        store = dist.PrefixStore(str(number), self.store)
        return Meeting(store, self.roll(rank), number, timeout=1800)

    def roll(self, rank: int) -> Roll:
        return Roll(self.store, list(range(self.size)), rank)


def meet_here(group: Any) -> Meeting:
    """In place of the process group."""
    return _here.threads.meeting(_here.rank, next(_here.numbers))


def patch(monkeypatch: Any) -> None:
    """Loaders with `uneven` meet the threads beside them."""
    monkeypatch.setattr(rank_module, "meet", meet_here)
