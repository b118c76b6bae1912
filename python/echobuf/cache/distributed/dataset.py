"""`PartitionedDataset`: a cache of which each rank of a job holds a share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from echobuf.cache.dataset import CachedDataset
from echobuf.cache.distributed import membership
from echobuf.cache.distributed.holdings import Holders, Holdings
from echobuf.cache.distributed.losses import Losses
from echobuf.cache.distributed.options import (
    check_host,
    check_on_lost,
    check_wait,
    name_of,
)
from echobuf.cache.distributed.peers import Peers
from echobuf.cache.distributed.server import Server
from echobuf.cache.distributed.sharing import COUNTED, Sharing
from echobuf.cache.distributed.stats import PartitionedStats
from echobuf.errors import ForkError, OptionError


class PartitionedDataset(CachedDataset):
    """Items of a map-style dataset, of which each rank keeps a share, for all of them.

    Partitioned caching (CoorDL, Mohan et al. 2020, arXiv:2007.06775): what a rank does
    not hold it asks of the one whose share it is, before the source is read. An item
    that is read from the source goes to the rank whose share it is, which keeps it if
    it has room: so each is read once, as long as all caches together hold them.

    Made on all ranks, after `init_process_group`, with the same arguments. A rank may
    read what and when it likes, in its threads and in DataLoader's workers; no other
    rank has to do anything for it. Ranks talk over connections of their own, whatever
    the backend of the process group.

    Args:
        dataset: as for `CachedDataset`, like the arguments that follow.
        max_bytes: of what this rank keeps.
        directory: of this rank, on a local disk; ranks of one machine may share it.
        identity: see there.
        prepare: see there.
        transform: see there.
        group: the process group; None: all ranks.
        on_lost: when a rank does not answer any more: "storage": its share is read from
            the source; "raise": whoever asks for it gets an `UpstreamError`.
        timeout_s: seconds without an answer after which a rank is taken for lost.
        host: the address of this machine at which others reach it; None: the one on the
            way to where the store of the process group is kept.

    Raises:
        OptionError: an argument is out of range or differs between ranks, or there is
            no process group.
        UpstreamError: another rank could not make its cache.
        CapacityError: `max_bytes` is more than the memory that there is.
    """

    _COUNTED = (*CachedDataset._COUNTED, *COUNTED)

    def __init__(
        self,
        dataset: Any,
        max_bytes: int,
        *,
        directory: Any = None,
        identity: str | None = None,
        prepare: Callable[[Any], Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
        group: Any = None,
        on_lost: str = "storage",
        timeout_s: float = 30.0,
        host: str | None = None,
    ) -> None:
        rank_store = membership.meet_ranks(group)
        self._rank, self._ranks = rank_store.rank, rank_store.size

        def make() -> Any:
            self._timeout_s = check_wait(timeout_s)
            CachedDataset.__init__(
                self,
                dataset,
                max_bytes,
                directory=directory,
                identity=identity,
                prepare=prepare,
                transform=transform,
            )
            arguments = {
                "dataset": f"{len(self)} items",
                "max_bytes": self._max_bytes,
                "directory": None if directory is None else "on disk",
                "identity": self._identity,
                "prepare": name_of(prepare),
                "on_lost": check_on_lost(on_lost),
                "timeout_s": self._timeout_s,
            }
            return membership.introduce(rank_store, check_host(host), arguments)

        said = membership.tell_all(rank_store, "made", make)
        membership.check_same(rank_store, [one["arguments"] for one in said])
        token = membership.token_of(said)
        self._losses = Losses(rank_store.members, on_lost)
        self._server: Server | None = None
        addresses = membership.tell_all(
            rank_store, "listens", functools.partial(self._serve, said, token)
        )
        at = [(address, port) for address, port in addresses]
        self._sharing = Sharing(
            Peers(at, token, self._timeout_s), self._rank, self._losses, self._counters
        )
        self._holdings: Holdings | None = Holdings(
            rank_store, self._store, len(self), self._losses, on_lost
        )

    def _serve(self, said: Any, token: bytes) -> tuple[str, int]:
        if self._ranks == 1:
            return "", 0
        host = membership.host_of(self._rank, said)
        try:
            self._server = Server(
                host,
                token=token,
                store=self._store,
                length=len(self),
                max_bytes=self._max_bytes,
            )
        except OSError as error:
            raise OptionError(
                f"`host` is {host!r}, where this rank cannot listen ({error}); it must "
                "be an address of this machine."
            ) from error
        return host, self._server.port

    def __getstate__(self) -> dict[str, Any]:
        """For workers, which ask and do not serve."""
        return {**self.__dict__, "_server": None, "_holdings": None}

    # ---- items

    def _fetch(self, numbers: list[int]) -> list[Any]:
        """Items that are not kept here: those of other ranks, then from the source."""
        items, rooms = self._sharing.ask(numbers)
        rest = [place for place in range(len(numbers)) if place not in items]
        if rest:
            read = self._read([numbers[place] for place in rest])
            items.update(zip(rest, read, strict=True))
            self._sharing.give({numbers[place]: items[place] for place in rest}, rooms)
        return [items[place] for place in range(len(numbers))]

    def _keep(self, number: int, item: Any, *, damaged: bool) -> None:
        if damaged or number % self._ranks == self._rank:
            super()._keep(number, item, damaged=damaged)

    # ---- who holds what

    @property
    def rank(self) -> int:
        """This rank, in the group."""
        return self._rank

    @property
    def ranks(self) -> int:
        """How many there are."""
        return self._ranks

    def holders(self, settings: Mapping[str, Any]) -> Holders:
        """The rank that holds each item, the same on all ranks; see `Holdings.agree`.

        Waits for all ranks.
        """
        if self._holdings is None:
            raise ForkError(
                "this copy of a `PartitionedDataset`, in a worker process, cannot "
                "agree with other ranks; iterate the `LocalitySampler` in the process "
                "that made the cache, as DataLoader and EchoLoader do."
            )
        return self._holdings.agree(settings)

    def stats(self) -> PartitionedStats:
        """What this rank holds, and what all of its processes have asked for."""
        counts = self._counters.sums()
        counts["misses"] -= counts["from_peers"]
        items, size = self._store.contents()
        return PartitionedStats(
            **counts,
            items=items,
            bytes=size,
            max_bytes=self._max_bytes,
            read_only=self._store.read_only,
            lost=self._losses.names(),
        )

    def close(self) -> None:
        """Serves other ranks no more: to them this one is lost.

        Happens when it is dropped, too. Called when all ranks have read what they need.
        """
        self.flush()
        self._sharing.peers.close()
        if self._server is not None:
            self._server.close()
