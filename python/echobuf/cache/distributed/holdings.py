"""The holder of each item, on which the ranks agree at the beginning of an epoch."""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echobuf.cache.distributed.membership import LostRanks, check_same
from echobuf.errors import ForkError, UpstreamError
from echobuf.ranks.store import RankStore

Holders = NDArray[np.int32]
NO_RANK = -1
"""The holder of an item that no rank holds."""
_FIRST = 0  # the rank that merges all reports, so that all ranks have the same result


def owners(length: int, ranks: int) -> Holders:
    """Return the rank that owns each item's partition and keeps the item if it fits."""
    return (np.arange(length) % ranks).astype(np.int32)


class Holdings:
    """The items that all ranks hold, as merged by the first rank.

    Each rank reports its items when all ranks come to the same point. The first rank
    leaves out ranks that are gone, and so all do.
    """

    def __init__(
        self,
        rank_store: RankStore,
        store: Any,
        length: int,
        lost_ranks: LostRanks,
        on_lost: str,
    ) -> None:
        self._rank_store = rank_store
        self._store = store
        self._owners = owners(length, rank_store.size)
        self._lost_ranks = lost_ranks
        self._tolerates_loss = on_lost == "storage"
        self._process = os.getpid()
        self._round = 0  # the last that was agreed on
        self._report: dict[str, Any] = {}  # of this rank, in that round
        self._reports: dict[int, dict[str, Any]] = {}  # the last of each; first rank
        self._gone: set[int] = set()  # first rank
        self._agreed: dict[str, Holders] = {}  # by settings
        self._last = np.full(length, NO_RANK, np.int32)

    def agree(self, settings: Mapping[str, Any]) -> Holders:
        """Return the rank that holds each item, or will; `NO_RANK` where none does.

        Waits for all ranks, once for each `settings`.
        """
        if self._process != os.getpid():
            raise ForkError(
                "a `LocalitySampler` is iterated in a forked child; iterate it in the "
                "process that made the cache, as DataLoader and EchoLoader do."
            )
        key = json.dumps(settings, sort_keys=True)
        if key not in self._agreed:
            self._agreed[key] = self._agree(settings)
        return self._agreed[key]

    def _agree(self, settings: Mapping[str, Any]) -> Holders:
        rank_store, number = self._rank_store, self._round + 1
        merged_key, prefix = f"holders/{number}", f"holds/{number}"
        report = self.report()
        sent = {"same": True} if report == self._report else report
        rank_store.set({f"{prefix}/{rank_store.rank}": {**sent, "settings": settings}})
        if rank_store.rank == _FIRST:
            rank_store.set({merged_key: self._merge_reports(prefix)})
            # A rank that has come to this round has read the last one.
            self._delete(f"holders/{self._round}")
        merged = rank_store.wait_for(
            lambda: rank_store.get(merged_key),
            lambda: f"rank {rank_store.members[_FIRST]} to merge what all ranks hold",
            self._check_first,
        )
        self._delete(f"holds/{self._round}/{rank_store.rank}")
        self._round, self._report = number, report
        self._add_lost(merged["lost"])
        check_same(rank_store, merged["settings"])
        if "holders" in merged:
            self._last = self._owners + _unpack(merged["holders"], np.int32)
        return self._last

    def report(self) -> dict[str, Any]:
        """Return which items this rank holds, and if it has room for another one."""
        self._store.flush()
        items, used = self._store.usage()
        held = self._store.stored_mask(len(self._owners))
        return {
            "held": _pack(np.packbits(held)),
            # Room for another item of the mean size of those that it holds.
            "open": self._store.free_bytes() * max(1, items) > used,
        }

    def _delete(self, key: str) -> None:
        if self._round > 0:
            self._rank_store.delete(key)

    def _add_lost(self, lost: list[int]) -> None:
        if self._rank_store.rank in lost:
            raise UpstreamError(
                "the other ranks have taken this one for gone, and go on without it."
            )
        for rank in lost:
            if rank not in self._lost_ranks:
                self._lost_ranks.add(rank, "its process is gone")

    # ---- on the first rank

    def _merge_reports(self, prefix: str) -> dict[str, Any]:
        before = self._gone.copy()
        reports = self._wait_for_reports(prefix)
        ranks = range(self._rank_store.size)
        merged: dict[str, Any] = {
            "lost": sorted(self._gone),
            "settings": [reports.get(r, reports[_FIRST])["settings"] for r in ranks],
        }
        changed = {rank: one for rank, one in reports.items() if "same" not in one}
        if not changed and self._gone == before:
            return merged
        self._reports.update(changed)
        holders = self._find_holders({rank: self._reports[rank] for rank in reports})
        return {**merged, "holders": _pack(holders - self._owners)}

    def _wait_for_reports(self, prefix: str) -> dict[int, dict[str, Any]]:
        """Return the report of each rank that is not gone."""

        def check() -> None:
            if self._tolerates_loss:
                self._gone |= self._rank_store.liveness.gone()
            else:
                self._rank_store.liveness.check()

        reports = self._rank_store.wait_for(
            lambda: self._rank_store.get_all(prefix, self._gone),
            lambda: self._rank_store.missing(prefix) + " to report what they hold",
            check,
        )
        present = [r for r in range(self._rank_store.size) if r not in self._gone]
        return dict(zip(present, reports, strict=True))

    def _find_holders(self, reports: Mapping[int, Mapping[str, Any]]) -> Holders:
        """Return the holder of each item.

        Of several ranks that hold an item its owner comes first, then the lowest rank.
        An item that no rank holds goes to its owner, if that has room.
        """
        length, ranks = len(self._owners), self._rank_store.size
        holders = np.full(length, NO_RANK, np.int32)
        for rank, report in reports.items():
            if report["open"]:
                holders[rank::ranks] = rank
        held = {
            rank: np.flatnonzero(np.unpackbits(_unpack(report["held"], np.uint8)))
            for rank, report in reports.items()
        }
        for rank in reversed(held):
            holders[held[rank]] = rank
        for rank, numbers in held.items():
            holders[numbers[numbers % ranks == rank]] = rank
        return holders

    # ---- on the other ranks

    def _check_first(self) -> None:
        if not self._tolerates_loss:
            self._rank_store.liveness.check()
        elif _FIRST in self._rank_store.liveness.gone():
            raise UpstreamError(
                f"rank {self._rank_store.members[_FIRST]} is gone, which merges what "
                "all ranks hold: without it they cannot agree on which rank reads "
                "which item."
            )


def _pack(values: NDArray[Any]) -> str:
    return base64.b64encode(zlib.compress(values.tobytes(), 1)).decode()


def _unpack(text: str, kind: Any) -> NDArray[Any]:
    data = zlib.decompress(base64.b64decode(text))
    return np.frombuffer(data, kind)
