"""The ranks of a cache: their addresses, their arguments, and the lost ones."""

from __future__ import annotations

import contextlib
import ipaddress
import secrets
import socket
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from echobuf.cache.distributed import protocol
from echobuf.cache.memory import SharedMemory
from echobuf.errors import OptionError, UpstreamError
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
        "token": secrets.token_hex(protocol.TOKEN_BYTES),
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
