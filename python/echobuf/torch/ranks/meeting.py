"""Where ranks meet: a store beside their training, and who is still there."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from echobuf.errors import UpstreamError
from echobuf.torch.ranks.beat import EVERY_S, Beat
from echobuf.torch.ranks.process import Process

T = TypeVar("T")

_LOOK_S = 0.5  # between looks at who is there
_SILENT_S = 15 * EVERY_S  # of a machine that is taken for gone
_PAUSE_S, _LONGEST_PAUSE_S = 2e-5, 1e-3
_PAUSE_PER_RANK_S = 2e-5  # so that many ranks that wait leave the store free


class Meeting:
    """The ranks of a process group, as one loader of one of them sees them.

    Args:
        store: that all of them share, for nothing else.
        members: their numbers in the whole job.
        rank: which of them this is.

    Raises:
        UpstreamError: the store does not answer.
    """

    def __init__(self, store: Any, members: list[int], rank: int) -> None:
        self.members = members
        self.rank = rank
        self.size = len(members)
        self._store = store
        self._processes: list[Process] | None = None
        self._heard: dict[int, tuple[int, float]] = {}  # the beat of a rank, and when
        self.set(f"process/{rank}", Process.this().as_dict())
        self._beat = Beat(store, f"beat/{rank}")

    # ---- what is kept there

    def set(self, key: str, value: Any) -> None:
        """Keeps a value that JSON can hold."""
        try:
            self._store.set(key, json.dumps(value))
        except RuntimeError as error:
            raise self._explain(error) from error

    def get(self, key: str) -> Any:
        """What was set; None if nothing was."""
        try:
            return (
                json.loads(self._store.get(key)) if self._store.check([key]) else None
            )
        except RuntimeError as error:
            raise self._explain(error) from error

    def get_all(self, prefix: str) -> list[Any] | None:
        """What each rank has set under `prefix`; None unless all have."""
        keys = [f"{prefix}/{rank}" for rank in range(self.size)]
        try:
            if not self._store.check(keys):
                return None
            return self._get(keys)
        except RuntimeError as error:
            raise self._explain(error) from error

    def read_all(self, prefix: str) -> list[Any]:
        """The same, where all have."""
        try:
            return self._get([f"{prefix}/{rank}" for rank in range(self.size)])
        except RuntimeError as error:
            raise self._explain(error) from error

    def _get(self, keys: list[str]) -> list[Any]:
        if self._store.has_extended_api():
            found = self._store.multi_get(keys)
        else:
            found = [self._store.get(key) for key in keys]
        return [json.loads(value) for value in found]

    def forget(self, key: str) -> None:
        """Deletes what is no longer needed."""
        try:
            self._store.delete_key(key)
        except RuntimeError as error:
            raise self._explain(error) from error

    # ---- waiting

    def wait_for(self, look: Callable[[], T | None], what: str) -> T:
        """What `look` gives, once it is not None. Ctrl-C gets through.

        Args:
            look: asked again and again.
            what: in words, for the error.

        Raises:
            UpstreamError: a rank is gone, or the time that torch gives collectives has
                passed.
        """
        begun = time.monotonic()
        next_look = begun + _LOOK_S
        pause, longest = _PAUSE_S, max(_LONGEST_PAUSE_S, _PAUSE_PER_RANK_S * self.size)
        while (answer := look()) is None:
            time.sleep(pause)
            pause = min(2 * pause, longest)
            now = time.monotonic()
            if now > next_look:
                try:
                    self.check_alive()
                except UpstreamError:
                    # Who is gone may have said why before.
                    if (answer := look()) is not None:
                        return answer
                    raise
                next_look = now + _LOOK_S
            if now - begun > dist.default_pg_timeout.total_seconds():
                raise UpstreamError(
                    f"waited for {what} for {dist.default_pg_timeout}; all ranks "
                    "still run, and one of them does not come."
                )
        return answer

    # ---- who is there

    def check_alive(self) -> None:
        """Raises `UpstreamError` that names the ranks that are gone, if any are."""
        if not self.know_all():
            return
        gone = self._ended() + self._silent()
        if gone:
            raise UpstreamError(f"{self._name(gone)} gone: no process is there.")

    def _name(self, ranks: list[int]) -> str:
        """The ranks and a verb, as the whole job numbers them."""
        numbers = ", ".join(str(self.members[rank]) for rank in sorted(ranks))
        return f"rank {numbers} is" if len(ranks) == 1 else f"ranks {numbers} are"

    def know_all(self) -> bool:
        """Whether all ranks have come; from then on it is known where each runs."""
        if self._processes is None:
            found = self.get_all("process")
            if found is None:
                return False
            self._processes = [Process(**one) for one in found]
            if len({process.machine for process in self._processes}) == 1:
                self._beat.stop()  # nobody listens
        return True

    def _others(self, local: bool) -> list[tuple[int, Process]]:
        if self._processes is None:
            return []
        own = self._processes[self.rank].machine
        return [
            (rank, process)
            for rank, process in enumerate(self._processes)
            if rank != self.rank and (process.machine == own) is local
        ]

    def _ended(self) -> list[int]:
        return [rank for rank, process in self._others(True) if process.is_gone()]

    def _silent(self) -> list[int]:
        silent = []
        for rank, _ in self._others(False):
            count, now = self._count(rank), time.monotonic()
            before, since = self._heard.get(rank, (None, now))
            if count != before:
                self._heard[rank] = (count, now)
            elif now - since > _SILENT_S:
                silent.append(rank)
        return silent

    def _count(self, rank: int) -> int:
        try:
            return int(self._store.add(f"beat/{rank}", 0))
        except RuntimeError as error:
            raise self._explain(error) from error

    def _explain(self, error: RuntimeError) -> UpstreamError:
        """The error for a store that does not answer."""
        gone = self._ended()
        if gone:  # others may have ended for want of the store
            first = [rank for rank in gone if self.members[rank] == 0] or gone
            return UpstreamError(f"{self._name(first)} gone: {error}")
        return UpstreamError(
            "the store of the process group does not answer; the process that keeps "
            f"it, rank 0 or the agent of torchrun, is gone: {error}"
        )
