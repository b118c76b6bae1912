"""`PartitionedDataset`: a cache of which each rank of a job holds a partition."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from echobuf.arguments import check_timeout
from echobuf.cache.dataset import COUNTED, CachedDataset, CacheStats
from echobuf.cache.distributed import membership
from echobuf.cache.distributed.membership import Holders, Holdings
from echobuf.cache.distributed.peers import PEER_COUNTS, PeerClient, SharedItems
from echobuf.cache.distributed.server import CacheServer
from echobuf.errors import ForkError, OptionError


@dataclass(frozen=True)
class PartitionedStats(CacheStats):
    """Contents of a rank's partition, and the requests of this rank's processes.

    Attributes:
        hits: items served from this rank's partition.
        misses: items read from the source.
        from_peers: items that other ranks have sent.
        peer_bytes: bytes of these.
        given: items read from the source here and sent to the rank that keeps them.
        given_bytes: bytes of these.
        lost: numbers of the ranks that did not answer, and are asked no more.

    Examples:
        >>> import torch
        >>> from echobuf.cache.distributed import PartitionedDataset
        >>> torch.distributed.init_process_group(
        ...     "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
        ... )
        >>> cached = PartitionedDataset([np.zeros(8)] * 4, 10_000, host="127.0.0.1")
        >>> item, again = cached[0], cached[0]
        >>> stats = cached.stats()
        >>> stats.hits, stats.misses, stats.from_peers, stats.lost
        (1, 1, 0, ())
        >>> cached.close()
        >>> torch.distributed.destroy_process_group()
    """

    from_peers: int
    peer_bytes: int
    given: int
    given_bytes: int
    lost: tuple[int, ...]

    @property
    def hit_rate(self) -> float:
        """The share of items that did not come from the source; 0.0 before any."""
        kept = self.hits + self.from_peers
        return kept / max(1, kept + self.misses)


class PartitionedDataset(CachedDataset):
    """Items of a map-style dataset, of which each rank keeps a partition, for all.

    Partitioned caching (CoorDL, Mohan et al. 2020, arXiv:2007.06775): a rank asks for
    an item that it does not hold the rank that owns its partition, before it reads the
    source. An item that is read from the source goes to its owner, which keeps it if it
    fits: so each item is read once, as long as all partitions together hold them.

    It is made on all ranks, after `init_process_group`, with the same arguments. A rank
    may read any items at any time, in its threads and in DataLoader's workers; no other
    rank has to call anything. Ranks use separate TCP connections, whatever the backend
    of the process group.

    Args:
        dataset: has `__getitem__` for 0 to n - 1, and `__len__`, which is n.
        max_bytes: of the items that this rank keeps.
        directory: of this rank, on a local disk; ranks of one machine may share it.
            None: in memory.
        identity: a string for these data and their preparation; a directory with
            another one is refused. None: it is made from three items.
        prepare: a function of an item of the dataset that returns the item to keep.
        transform: a function of a kept item that returns the item to serve, called at
            each access.
        group: the process group; None: all ranks.
        on_lost: when a rank does not answer any more: "storage": its partition is read
            from the source; "raise": a rank that asks for an item of it gets an
            `UpstreamError`.
        timeout_s: seconds without an answer after which a rank is lost.
        host: the address of this machine at which others reach it; None: the one on the
            route to the host of the process group's store.

    Raises:
        OptionError: an argument is out of range or differs between ranks, or there is
            no process group.
        UpstreamError: another rank could not make its cache.
        CapacityError: `max_bytes` is more than the available memory.

    Examples:
        >>> import torch
        >>> from echobuf.cache.distributed import PartitionedDataset
        >>> torch.distributed.init_process_group(
        ...     "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
        ... )
        >>> cached = PartitionedDataset([np.zeros(8)] * 4, 10_000, host="127.0.0.1")
        >>> cached.rank, cached.ranks
        (0, 1)
        >>> item, again = cached[0], cached[0]
        >>> cached.flush()
        >>> cached.stats().hit_rate
        0.5
        >>> cached.close()
        >>> torch.distributed.destroy_process_group()
    """

    _COUNTED = (*COUNTED, *PEER_COUNTS)

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
        rank_store = membership.join_ranks(group)
        self._rank, self._ranks = rank_store.rank, rank_store.size

        def make() -> Any:
            self._timeout_s = check_timeout_s(timeout_s)
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
                "prepare": _qualified_name(prepare),
                "on_lost": _check_on_lost(on_lost),
                "timeout_s": self._timeout_s,
            }
            return membership.describe_rank(rank_store, _check_host(host), arguments)

        ranks = membership.exchange(rank_store, "made", make)
        membership.check_same(rank_store, [one["arguments"] for one in ranks])
        token = membership.token_of(ranks)
        self._lost_ranks = membership.LostRanks(rank_store.members, on_lost)
        self._server: CacheServer | None = None
        listening = membership.exchange(
            rank_store, "listens", functools.partial(self._serve, ranks, token)
        )
        addresses = [(host, port) for host, port in listening]
        self._shared = SharedItems(
            PeerClient(addresses, token, self._timeout_s),
            self._rank,
            self._lost_ranks,
            self._counters,
        )
        self._holdings: Holdings | None = Holdings(
            rank_store, self._store, len(self), self._lost_ranks, on_lost
        )

    def _serve(self, ranks: Any, token: bytes) -> tuple[str, int]:
        """Start the server; return its host and port."""
        if self._ranks == 1:
            return "", 0
        host = membership.host_of(self._rank, ranks)
        try:
            self._server = CacheServer(
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
        """Return the state for worker processes, which are clients alone."""
        return {**self.__dict__, "_server": None, "_holdings": None}

    # ---- items

    def _fetch(self, numbers: list[int]) -> list[Any]:
        """Return items of other ranks, and the missing ones from the source."""
        items, free = self._shared.fetch(numbers)
        missing = [index for index in range(len(numbers)) if index not in items]
        if missing:
            read = self._read([numbers[index] for index in missing])
            items.update(zip(missing, read, strict=True))
            self._shared.give({numbers[i]: items[i] for i in missing}, free)
        return [items[index] for index in range(len(numbers))]

    def _keep(self, number: int, item: Any, *, damaged: bool) -> None:
        if damaged or number % self._ranks == self._rank:
            super()._keep(number, item, damaged=damaged)

    # ---- holders

    @property
    def rank(self) -> int:
        """The index of this rank in the group."""
        return self._rank

    @property
    def ranks(self) -> int:
        """The number of ranks in the group."""
        return self._ranks

    def holders(self, settings: Mapping[str, Any]) -> Holders:
        """Return the rank that holds each item, -1 for none; the same on all ranks.

        Waits until all ranks call it, once for each `settings`; later calls return the
        same. The array is int32, of one element an item.

        Args:
            settings: values that JSON can hold, the same on all ranks.

        Raises:
            OptionError: settings differ between ranks.
            UpstreamError: a rank is gone that the agreement needs.
            ForkError: this is a copy in a worker process.

        Examples:
            >>> import torch
            >>> from echobuf.cache.distributed import PartitionedDataset
            >>> torch.distributed.init_process_group(
            ...     "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
            ... )
            >>> cached = PartitionedDataset([np.zeros(8)] * 4, 10_000, host="127.0.0.1")
            >>> item = cached[1]
            >>> cached.holders({"epoch": 0})  # the same settings on all ranks
            array([0, 0, 0, 0], dtype=int32)
            >>> cached.close()
            >>> torch.distributed.destroy_process_group()
        """
        if self._holdings is None:
            raise ForkError(
                "this copy of a `PartitionedDataset`, in a worker process, cannot "
                "agree with other ranks; iterate the `LocalitySampler` in the process "
                "that made the cache, as DataLoader and EchoLoader do."
            )
        return self._holdings.agree(settings)

    def stats(self) -> PartitionedStats:
        """Return this rank's contents, and the requests of all of its processes."""
        counts = self._counters.sums()
        counts["misses"] -= counts["from_peers"]
        items, size = self._store.usage()
        return PartitionedStats(
            **counts,
            items=items,
            bytes=size,
            max_bytes=self._max_bytes,
            read_only=self._store.read_only,
            lost=self._lost_ranks.members(),
        )

    def close(self) -> None:
        """Stop serving other ranks, to which this one is lost then.

        Call it when all ranks are done with it; dropping the cache has the same effect.
        """
        self.flush()
        self._shared.client.close()
        if self._server is not None:
            self._server.close()


def check_timeout_s(timeout_s: Any) -> float:
    """Return `timeout_s` as a float."""
    try:
        seconds = check_timeout(timeout_s)
    except OptionError:
        seconds = None
    if seconds is None or not 0 < seconds <= 1e6:
        raise OptionError(
            f"`timeout_s` is {timeout_s!r}; it must be seconds > 0, at most 1e6."
        )
    return seconds


def _check_on_lost(on_lost: Any) -> str:
    if on_lost in ("storage", "raise"):
        return str(on_lost)
    raise OptionError(f"`on_lost` is {on_lost!r}; it must be 'storage' or 'raise'.")


def _check_host(host: Any) -> str | None:
    if host is None or (isinstance(host, str) and host):
        return host
    raise OptionError(
        f"`host` is {host!r}; it must be an address of this machine, or None."
    )


def _qualified_name(function: Any) -> str | None:
    """Return a name by which ranks that run the same program compare functions."""
    if function is None:
        return None
    kind = function if hasattr(function, "__qualname__") else type(function)
    return f"{kind.__module__}.{kind.__qualname__}"
