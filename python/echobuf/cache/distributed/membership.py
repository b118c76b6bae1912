"""The ranks of a cache: their addresses and arguments, their loss, what they hold."""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import json
import os
import secrets
import socket
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echobuf.cache.distributed.server import TOKEN_BYTES
from echobuf.cache.memory import SharedMemory
from echobuf.errors import ForkError, OptionError, UpstreamError
from echobuf.ranks.liveness import Process, format_error, format_per_rank
from echobuf.ranks.store import RankStore, join_group

LOOPBACK = "127.0.0.1"


def join_ranks(group: Any) -> RankStore:
    """Return the store that the ranks of a process group share for one cache."""
    return join_group(
        group,
        reason="a `PartitionedDataset` is made",
        instead="use `echobuf.cache.CachedDataset`, which needs none",
    )


def describe_rank(
    rank_store: RankStore, host: str | None, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the description of this rank that the other ranks read."""
    return {
        "arguments": arguments,
        "host": host,
        "machine": Process.current().machine,
        "near": address_near(rank_store.torch_store),
        "token": secrets.token_hex(TOKEN_BYTES),
    }


def token_of(descriptions: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the job's token, which only its ranks know: that of the first rank."""
    return bytes.fromhex(descriptions[0]["token"])


def host_of(rank: int, descriptions: Sequence[Mapping[str, Any]]) -> str:
    """Return the address at which the other ranks reach a rank."""
    if descriptions[rank]["host"] is not None:
        return str(descriptions[rank]["host"])
    near, machines = ([one[key] for one in descriptions] for key in ("near", "machine"))
    found = choose_address(rank, near, machines)
    if found is None:
        raise OptionError(
            "`host` is None, and there are ranks on other machines, but none of this "
            "machine's addresses that they might reach was found; give `host=`, one of "
            "its addresses."
        )
    return found


def exchange(rank_store: RankStore, key: str, make: Callable[[], Any]) -> list[Any]:
    """Call `make` on every rank; return the results of all ranks.

    Raises:
        UpstreamError: `make` has failed on another rank.
        Exception: that of `make` on this rank, which the others raise as above.
    """
    own_key = f"{key}/{rank_store.rank}"
    try:
        made = make()
    except Exception as error:
        with contextlib.suppress(UpstreamError):  # no other rank is left
            rank_store.set({own_key: {"failed": format_error(error)}})
        raise
    rank_store.set({own_key: {"made": made}})
    results = rank_store.wait_for(
        lambda: rank_store.get_all(key),
        lambda: rank_store.missing(key) + " to make its cache",
    )
    rank_store.liveness.look_up()
    failed = [
        f"rank {rank} could not make its cache: {result['failed']}"
        for rank, result in zip(rank_store.members, results, strict=True)
        if "failed" in result
    ]
    if failed:
        raise UpstreamError("; ".join(failed))
    return [result["made"] for result in results]


def check_same(rank_store: RankStore, arguments: Sequence[Mapping[str, Any]]) -> None:
    """Check that all ranks have the same arguments."""
    for name in arguments[0]:
        values = [each[name] for each in arguments]
        if any(value != values[0] for value in values):
            listed = format_per_rank(list(zip(rank_store.members, values, strict=True)))
            raise OptionError(
                f"`{name}` differs between ranks ({listed}); it must be the same on "
                "all of them."
            )


# ---- addresses


def local_address_to(host: str) -> str | None:
    """Return this machine's address on the route to a host; None without a route.

    Nothing is sent.
    """
    with contextlib.suppress(OSError):
        found = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)
        for family, kind, protocol_number, _, address in found:
            with socket.socket(family, kind, protocol_number) as probe:
                probe.connect(address)
                return str(probe.getsockname()[0])
    return None


def address_near(store: Any) -> str:
    """Return this machine's address on the route to the host of a torch store."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    host = getattr(store, "host", None)  # without one, all ranks are on this machine
    return LOOPBACK if host is None else local_address_to(host) or LOOPBACK


def choose_address(
    rank: int, near: Sequence[str], machines: Sequence[str]
) -> str | None:
    """Return the address at which the others reach a rank; None if there is none.

    Args:
        rank: to be reached.
        near: the address of each rank on the route to the host of the store. On that
            very machine it may be a loopback address, which no other machine reaches.
        machines: of each rank.
    """
    if len(set(machines)) == 1 or not _is_loopback(near[rank]):
        return near[rank]
    elsewhere = [
        address
        for address, machine in zip(near, machines, strict=True)
        if machine != machines[rank] and not _is_loopback(address)
    ]
    found = local_address_to(elsewhere[0]) if elsewhere else None
    return None if found is None or _is_loopback(found) else found


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


# ---- lost ranks


class LostRanks:
    """The ranks that do not answer any more; all processes of this rank share it."""

    def __init__(self, members: Sequence[int], on_lost: str) -> None:
        self._members = members
        self._raises = on_lost == "raise"
        self._memory = SharedMemory(len(members))

    def __contains__(self, rank: int) -> bool:
        return self._memory.view[rank] != 0

    def members(self) -> tuple[int, ...]:
        """Return the lost ranks' numbers in the whole job."""
        lost = zip(self._members, self._memory.view, strict=True)
        return tuple(member for member, is_lost in lost if is_lost)

    def add(self, rank: int, reason: str) -> None:
        """Mark a rank as lost, so that it is asked no more; warn once."""
        is_known = rank in self
        self._memory.view[rank] = 1
        self.check()
        if not is_known:
            warnings.warn(
                f"rank {self._members[rank]} does not answer ({reason}); its partition "
                "of the cache is read from the source from now on.",
                RuntimeWarning,
                stacklevel=2,
            )

    def check(self) -> None:
        """Raise `UpstreamError` where a rank is lost and `on_lost` is "raise"."""
        if self._raises and (lost := self.members()):
            names = ", ".join(map(str, lost))
            raise UpstreamError(
                f"rank {names} of the cache does not answer and seems to be gone; with "
                "`on_lost='storage'` the others would read its items from the source."
            )


# ---- what the ranks hold

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
