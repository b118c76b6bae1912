"""At which of its addresses a rank is reached by the others."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Sequence
from typing import Any

LOOPBACK = "127.0.0.1"


def towards(host: str) -> str | None:
    """This machine's address on the way to a host; None where there is no way.

    Nothing is sent.
    """
    with contextlib.suppress(OSError):
        found = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)
        for family, kind, protocol, _, address in found:
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(address)
                return str(probe.getsockname()[0])
    return None


def near(store: Any) -> str:
    """This machine's address on the way to where a store of torch's is kept."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    host = getattr(store, "host", None)  # a file, memory: all are on this machine
    return LOOPBACK if host is None else towards(host) or LOOPBACK


def choose(rank: int, near: Sequence[str], machines: Sequence[str]) -> str | None:
    """Where a rank is reached.

    Args:
        rank: of which it is asked.
        near: the address of each rank on the way to where the store is kept. That of
            who is on that very machine may be one that no other reaches.
        machines: where each runs.

    Returns:
        None where there is none that all others reach.
    """
    if len(set(machines)) == 1 or not _is_loopback(near[rank]):
        return near[rank]
    elsewhere = [
        address
        for address, machine in zip(near, machines, strict=True)
        if machine != machines[rank] and not _is_loopback(address)
    ]
    found = towards(elsewhere[0]) if elsewhere else None
    return None if found is None or _is_loopback(found) else found


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback
