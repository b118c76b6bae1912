"""Items that go from rank to rank: asked for, or given to the one that keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from echobuf.cache import record
from echobuf.cache.counters import Counters
from echobuf.cache.distributed.losses import Losses
from echobuf.cache.distributed.peers import Peers
from echobuf.describe_error import message

COUNTED = ("from_peers", "peer_bytes", "given", "given_bytes")


class Sharing:
    """One rank's, with the others. Item number i is of the share of rank i % ranks.

    Args:
        peers: the other ranks.
        rank: this one.
        losses: what is known of lost ranks.
        counters: of `COUNTED`, and of damaged items.

    Attributes:
        peers: as given.
    """

    def __init__(
        self, peers: Peers, rank: int, losses: Losses, counters: Counters
    ) -> None:
        self.peers = peers
        self._rank = rank
        self._losses = losses
        self._counters = counters

    def ask(self, numbers: Sequence[int]) -> tuple[dict[int, Any], dict[int, int]]:
        """Items that other ranks hold.

        Returns:
            Those that have come, by their place in `numbers`; and the bytes that each
            rank that was asked has room for.

        Raises:
            UpstreamError: a rank is lost, where that was chosen.
        """
        self._losses.refuse()
        wanted: dict[int, list[int]] = {}
        for place, number in enumerate(numbers):
            rank = number % self.peers.ranks
            if rank != self._rank and rank not in self._losses:
                wanted.setdefault(rank, []).append(place)
        asked = {rank: [numbers[p] for p in places] for rank, places in wanted.items()}
        items, rooms = {}, {}
        for rank, (records, room) in self.peers.fetch(asked, self._lose).items():
            rooms[rank] = room
            for place, stored in zip(wanted[rank], records, strict=True):
                if stored:
                    items.update(self._unpack(place, numbers[place], stored))
        return items, rooms

    def _unpack(self, place: int, number: int, stored: bytearray) -> dict[int, Any]:
        try:
            item = record.read(stored, number)
        except record.DamagedError:
            self._counters.add(damaged=1)
            return {}
        self._counters.add(from_peers=1, peer_bytes=len(stored))
        return {place: item}

    def give(self, items: Mapping[int, Any], rooms: Mapping[int, int]) -> None:
        """Sends items that were read from the source to the ranks that keep them.

        Args:
            items: by their numbers.
            rooms: bytes that ranks have room for.

        Raises:
            UpstreamError: a rank is lost, where that was chosen.
        """
        for rank, room in rooms.items():
            theirs = {n: i for n, i in items.items() if n % self.peers.ranks == rank}
            given = _fitting(theirs, room)
            if not given:
                continue
            try:
                self.peers.give(rank, given)
            except OSError as error:
                self._lose(rank, error)
            else:
                size = sum(len(sealed) for _, sealed in given)
                self._counters.add(given=len(given), given_bytes=size)

    def _lose(self, rank: int, error: OSError) -> None:
        self._losses.note(rank, message(error))


def _fitting(items: Mapping[int, Any], room: int) -> list[tuple[int, bytearray]]:
    """Records of these items, as far as there is room for them."""
    fitting = []
    for number, item in items.items():
        if room < record.HEAD_BYTES:
            break
        draft = record.Draft(item)
        if draft.size <= room:
            room -= draft.size
            fitting.append((number, draft.seal(number)))
    return fitting
