"""Which rank holds which item: agreed at the beginning of an epoch, for all of it."""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echobuf.cache.distributed.dealing import NOBODY
from echobuf.cache.distributed.losses import Losses
from echobuf.cache.distributed.membership import check_same
from echobuf.errors import ForkError, UpstreamError
from echobuf.ranks.store import RankStore

Holders = NDArray[np.int32]
_FIRST = 0  # the rank that puts together what all say: so all have the same


def shares(length: int, ranks: int) -> Holders:
    """The rank whose share an item belongs to: that keeps it, if it has room."""
    return (np.arange(length) % ranks).astype(np.int32)


class Holdings:
    """What all ranks say that they hold, as one of them has put it together.

    Each says it when all come to the same point. Some may be lost meanwhile: they are
    left out by the one that puts it together, and so by all.

    Args:
        rank_store: of the ranks.
        store: of this rank.
        length: how many items there are.
        losses: what is known of lost ranks.
        on_lost: "storage" or "raise".
    """

    def __init__(
        self,
        rank_store: RankStore,
        store: Any,
        length: int,
        losses: Losses,
        on_lost: str,
    ) -> None:
        self._rank_store = rank_store
        self._store = store
        self._shares = shares(length, rank_store.size)
        self._losses = losses
        self._goes_on = on_lost == "storage"
        self._process = os.getpid()
        self._round = 0  # the last that was agreed
        self._said: dict[str, Any] = {}  # by this rank, in that round
        self._heard: dict[int, dict[str, Any]] = {}  # by the first rank, of each
        self._gone: set[int] = set()
        self._agreed: dict[str, Holders] = {}  # by what it was asked for
        self._last = np.full(length, NOBODY, np.int32)

    def agree(self, settings: Mapping[str, Any]) -> Holders:
        """The rank that holds each item, or will; `NOBODY` where none does.

        Waits for all ranks, once for each `settings`.

        Args:
            settings: what they agree for; the same on all ranks.

        Raises:
            OptionError: settings differ.
            UpstreamError: a rank is gone without which this cannot be agreed.
            ForkError: this is a forked child.
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
        key = f"holders/{number}"
        holds = self._holds()
        said = {"same": True} if holds == self._said else holds
        rank_store.set(
            {f"holds/{number}/{rank_store.rank}": {**said, "settings": settings}}
        )
        if rank_store.rank == _FIRST:
            rank_store.set({key: self._put_together(f"holds/{number}")})
            self._forget(
                f"holders/{self._round}"
            )  # who comes to this round has read it
        answer = rank_store.wait_for(
            lambda: rank_store.get(key),
            lambda: f"rank {rank_store.members[_FIRST]} to put together who holds what",
            self._check_first,
        )
        self._forget(f"holds/{self._round}/{rank_store.rank}")
        self._round, self._said = number, holds
        self._note(answer["lost"])
        check_same(rank_store, answer["settings"])
        if "holders" in answer:
            self._last = self._shares + _unpack(answer["holders"], np.int32)
        return self._last

    def _holds(self) -> dict[str, Any]:
        self._store.flush()
        items, used = self._store.contents()
        held = self._store.held(len(self._shares))
        return {
            "held": _pack(np.packbits(held)),
            # Room for another item as large as those that it holds.
            "open": self._store.room() * max(1, items) > used,
        }

    def _forget(self, key: str) -> None:
        if self._round > 0:
            self._rank_store.delete(key)

    def _note(self, lost: list[int]) -> None:
        if self._rank_store.rank in lost:
            raise UpstreamError(
                "the other ranks have taken this one for gone, and go on without it."
            )
        for rank in lost:
            if rank not in self._losses:
                self._losses.note(rank, "its process is gone")

    # ---- of the first rank

    def _put_together(self, prefix: str) -> dict[str, Any]:
        before = self._gone.copy()
        said = self._hear(prefix)
        ranks = range(self._rank_store.size)
        answer: dict[str, Any] = {
            "lost": sorted(self._gone),
            "settings": [said.get(r, said[_FIRST])["settings"] for r in ranks],
        }
        changed = {rank: one for rank, one in said.items() if "same" not in one}
        if not changed and self._gone == before:
            return answer
        self._heard.update(changed)
        holders = self._merge({rank: self._heard[rank] for rank in said})
        return {**answer, "holders": _pack(holders - self._shares)}

    def _hear(self, prefix: str) -> dict[int, dict[str, Any]]:
        """What each rank says, without those that are gone."""

        def check() -> None:
            if self._goes_on:
                self._gone |= self._rank_store.liveness.gone()
            else:
                self._rank_store.liveness.check()

        said = self._rank_store.wait_for(
            lambda: self._rank_store.get_all(prefix, self._gone),
            lambda: self._rank_store.missing(prefix) + " to say what they hold",
            check,
        )
        here = [r for r in range(self._rank_store.size) if r not in self._gone]
        return dict(zip(here, said, strict=True))

    def _merge(self, said: Mapping[int, Mapping[str, Any]]) -> Holders:
        """What is in doubt goes to whose share it is."""
        length, ranks = len(self._shares), self._rank_store.size
        holders = np.full(length, NOBODY, np.int32)
        for rank, one in said.items():
            if one["open"]:
                holders[rank::ranks] = rank
        held = {
            rank: np.flatnonzero(np.unpackbits(_unpack(one["held"], np.uint8)))
            for rank, one in said.items()
        }
        for rank in reversed(held):
            holders[held[rank]] = rank
        for rank, numbers in held.items():
            holders[numbers[numbers % ranks == rank]] = rank
        return holders

    # ---- of the others

    def _check_first(self) -> None:
        if not self._goes_on:
            self._rank_store.liveness.check()
        elif _FIRST in self._rank_store.liveness.gone():
            raise UpstreamError(
                f"rank {self._rank_store.members[_FIRST]} is gone, which puts together "
                "what ranks hold: without it they cannot agree on who reads what."
            )


def _pack(values: NDArray[Any]) -> str:
    return base64.b64encode(zlib.compress(values.tobytes(), 1)).decode()


def _unpack(text: str, kind: Any) -> NDArray[Any]:
    data = zlib.decompress(base64.b64decode(text))
    return np.frombuffer(data, kind)
