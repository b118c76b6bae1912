"""Which ranks are there, and which are gone."""

from __future__ import annotations

import time
from typing import Any

import torch.distributed as dist

from echobuf.errors import UpstreamError
from echobuf.torch.ranks.beat import Beat
from echobuf.torch.ranks.board import Board, StoreGoneError
from echobuf.torch.ranks.process import Process

_PATIENCE_S = 1.0
_SILENT_S = 120.0  # of a machine that is taken for gone


class Roll:
    """The ranks of a group; all loaders of this process share it.

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
        self._board = Board(store)
        self._processes: dict[int, Process] = {rank: Process.this()}
        self._heard: dict[int, tuple[int, float]] = {}  # the beat of a rank, and when
        try:
            own = {f"process/{rank}": self._processes[rank].as_dict()}
            self._board.set(own)
        except StoreGoneError as error:
            raise self.explain(error) from error
        self._beat = Beat(store, f"beat/{rank}")

    def check(self) -> None:
        """Raises `UpstreamError` that names the ranks that are gone, if any are."""
        self.meet()
        try:
            ended, silent = self._ended(), self._silent()
        except StoreGoneError as error:
            raise self.explain(error) from error
        if ended:
            raise UpstreamError(f"{self.name(ended)} gone: no process is there.")
        if silent:
            raise UpstreamError(
                f"{self.name(silent)} gone: no sign of life for {_SILENT_S:.0f} s."
            )

    def gone(self) -> set[int]:
        """The ranks that are gone.

        Raises:
            UpstreamError: the store does not answer.
        """
        self.meet()
        try:
            return {*self._ended(), *self._silent()}
        except StoreGoneError as error:
            raise self.explain(error) from error

    def name(self, ranks: list[int]) -> str:
        """The ranks and a verb, as the whole job numbers them."""
        numbers = ", ".join(str(self.members[rank]) for rank in sorted(ranks))
        return f"rank {numbers} is" if len(ranks) == 1 else f"ranks {numbers} are"

    def explain(self, error: StoreGoneError) -> UpstreamError:
        """The error for a store that does not answer."""
        gone = self._ended()
        patience = time.monotonic() + _PATIENCE_S
        # A process that is being killed is still there when its connections are not,
        # and others may have ended for want of it by then.
        while not self._has_keeper(gone) and time.monotonic() < patience:
            time.sleep(0.01)
            gone = self._ended()
        if gone:
            return UpstreamError(f"{self.name(gone)} gone: {error}")
        if not dist.is_initialized():
            return UpstreamError(
                "the process group was destroyed, whose store the ranks talk in."
            )
        return UpstreamError(
            "the store of the process group does not answer; the process that keeps "
            f"it, rank 0 or the agent of torchrun, is gone: {error}"
        )

    def _has_keeper(self, gone: list[int]) -> bool:
        """Whether rank 0, which mostly keeps the store, is among them, if it can be."""
        local = [self.members[rank] for rank, _ in self._others(local=True)]
        return (
            not dist.is_initialized()
            or 0 not in local
            or any(self.members[rank] == 0 for rank in gone)
        )

    # ---- where they are

    def meet(self) -> None:
        """Learns who has come since, and where they run."""
        try:
            self._meet()
        except StoreGoneError as error:
            raise self.explain(error) from error

    def _meet(self) -> None:
        new = [rank for rank in range(len(self.members)) if rank not in self._processes]
        for rank in new:
            found = self._board.get(f"process/{rank}")
            if found is not None:
                self._processes[rank] = Process(**found)
        everybody = len(self._processes) == len(self.members)
        if new and everybody and not self._others(local=False):
            self._beat.stop()  # nobody listens

    def _others(self, local: bool) -> list[tuple[int, Process]]:
        own = self._processes[self.rank].machine
        return [
            (rank, process)
            for rank, process in self._processes.items()
            if rank != self.rank and (process.machine == own) is local
        ]

    def _ended(self) -> list[int]:
        return [rank for rank, process in self._others(True) if process.is_gone()]

    def _silent(self) -> list[int]:
        silent = []
        for rank, _ in self._others(False):
            count, now = self._board.add(f"beat/{rank}", 0), time.monotonic()
            before, since = self._heard.get(rank, (None, now))
            if count != before:
                self._heard[rank] = (count, now)
            elif now - since > _SILENT_S:
                silent.append(rank)
        return silent
