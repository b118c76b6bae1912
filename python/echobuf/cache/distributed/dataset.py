"""`PartitionedDataset`: a cache of which each rank of a job holds a share."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

from echobuf.cache import record
from echobuf.cache.dataset import CachedDataset
from echobuf.cache.distributed import membership
from echobuf.cache.distributed.holdings import Holders, Holdings
from echobuf.cache.distributed.losses import Losses
from echobuf.cache.distributed.peers import Peers
from echobuf.cache.distributed.server import Server
from echobuf.cache.distributed.stats import PartitionedStats
from echobuf.errors import ClosedError, ForkError, OptionError
from echobuf.options import check_timeout


class PartitionedDataset(CachedDataset):
    """Items of a map-style dataset, of which each rank keeps a share, for all of them.

    Partitioned caching (CoorDL, Mohan et al. 2020, arXiv:2007.06775): what a rank does
    not hold it asks of the one whose share it is, before the source is read. An item
    that is read from the source goes to the rank whose share it is, which keeps it if it
    has room: so each is read once, as long as all caches together hold them.

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

    _COUNTED = (
        *CachedDataset._COUNTED,
        "from_peers",
        "peer_bytes",
        "given",
        "given_bytes",
    )

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
        meeting = membership.meet_ranks(group)
        self._rank, self._ranks = meeting.rank, meeting.size

        def make() -> Any:
            self._timeout_s = _check_timeout(timeout_s)
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
                "identity": identity,
                "prepare": _name(prepare),
                "on_lost": _check_on_lost(on_lost),
                "timeout_s": self._timeout_s,
            }
            return membership.introduce(meeting, _check_host(host), arguments)

        said = membership.tell_all(meeting, "made", make)
        membership.check_same(meeting, [one["arguments"] for one in said])
        token = membership.token_of(said)
        self._losses = Losses(meeting.members, on_lost)
        self._server: Server | None = None
        addresses = membership.tell_all(
            meeting, "listens", functools.partial(self._serve, said, token)
        )
        self._peers = Peers(
            [(host, port) for host, port in addresses], token, self._timeout_s
        )
        self._holdings: Holdings | None = Holdings(
            meeting, self._store, len(self), self._losses, on_lost
        )
        self._process = os.getpid()

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
        return {**self.__dict__, "_server": None, "_holdings": None, "_process": 0}

    # ---- items

    def _fetch(self, numbers: list[int]) -> list[Any]:
        """Items that are not kept here: those of other ranks, then from the source."""
        items: dict[int, Any] = {}  # by place in `numbers`
        rooms = self._ask_peers(numbers, items)
        rest = [place for place in range(len(numbers)) if place not in items]
        if rest:
            read = self._read([numbers[place] for place in rest])
            items.update(zip(rest, read, strict=True))
            self._give({numbers[place]: items[place] for place in rest}, rooms)
        self._counters.add(from_peers=len(numbers) - len(rest))
        return [items[place] for place in range(len(numbers))]

    def _ask_peers(self, numbers: list[int], items: dict[int, Any]) -> dict[int, int]:
        """Adds what other ranks hold; the bytes that each of them has room for."""
        wanted: dict[int, list[int]] = {}
        for place, number in enumerate(numbers):
            rank = number % self._ranks
            if rank != self._rank and rank not in self._losses:
                wanted.setdefault(rank, []).append(place)
        self._losses.refuse()
        answers = self._peers.fetch(
            {rank: [numbers[at] for at in places] for rank, places in wanted.items()},
            self._lose,
        )
        for rank, (records, _) in answers.items():
            for place, stored in zip(wanted[rank], records, strict=True):
                if stored:
                    self._unpack(numbers[place], stored, place, items)
        return {rank: room for rank, (_, room) in answers.items()}

    def _unpack(
        self, number: int, stored: bytearray, place: int, items: dict[int, Any]
    ) -> None:
        try:
            items[place] = record.read(stored, number)
            self._counters.add(peer_bytes=len(stored))
        except record.DamagedError:
            self._counters.add(damaged=1)

    def _give(self, items: Mapping[int, Any], rooms: Mapping[int, int]) -> None:
        """Sends what was read from the source to the ranks that have room for it."""
        for rank, room in rooms.items():
            given = []
            for number, item in items.items():
                if number % self._ranks == rank and room >= record.HEAD_BYTES:
                    draft = record.Draft(item)
                    if draft.size <= room:
                        room -= draft.size
                        given.append((number, draft.seal(number)))
            if given:
                try:
                    self._peers.give(rank, given)
                except OSError as error:
                    self._lose(rank, error)
                    continue
                size = sum(len(sealed) for _, sealed in given)
                self._counters.add(given=len(given), given_bytes=size)

    def _keep(self, number: int, item: Any, *, damaged: bool) -> None:
        if damaged or number % self._ranks == self._rank:
            super()._keep(number, item, damaged=damaged)

    def _lose(self, rank: int, error: OSError) -> None:
        self._losses.note(rank, str(error) or type(error).__name__)

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
        self._peers.close()
        if self._server is not None:
            self._server.close()


def _check_on_lost(on_lost: Any) -> str:
    if on_lost in ("storage", "raise"):
        return str(on_lost)
    raise OptionError(f"`on_lost` is {on_lost!r}; it must be 'storage' or 'raise'.")


def _check_timeout(timeout_s: Any) -> float:
    try:
        seconds = check_timeout(timeout_s)
    except OptionError:
        seconds = None
    if seconds is None or not 0 < seconds < 1e6:
        raise OptionError(
            f"`timeout_s` is {timeout_s!r}; it must be seconds > 0, at most 1e6."
        )
    return seconds


def _check_host(host: Any) -> str | None:
    if host is None or (isinstance(host, str) and host):
        return host
    raise OptionError(
        f"`host` is {host!r}; it must be an address of this machine, or None."
    )


def _name(function: Any) -> str | None:
    """What tells functions apart in the same program on several ranks."""
    if function is None:
        return None
    kind = function if hasattr(function, "__qualname__") else type(function)
    return f"{kind.__module__}.{kind.__qualname__}"
