"""Messages to a rank's server, from ranks and from strangers; addresses of ranks."""

from __future__ import annotations

import socket

import pytest

pytest.importorskip("torch")

from cache_data import COUNT, item
from echobuf.cache.distributed import membership
from echobuf.cache.distributed import server as protocol
from echobuf.cache.items import ItemEncoder
from leaked_threads import no_feeder
from sharing_ranks import Sharing, read

pytestmark = pytest.mark.usefixtures("ranks_here")


def connect(sharing):
    opened = socket.create_connection(sharing.listening(0), 10)
    opened.settimeout(10)
    return opened


def is_closed(opened):
    """Return whether the server has closed the connection without a response."""
    try:
        return opened.recv(1) == b""
    except ConnectionError:
        return True


def greeted(sharing):
    opened = connect(sharing)
    opened.sendall(protocol.GREETING.pack(protocol.MAGIC, sharing.token()))
    assert opened.recv(8) == protocol.WELCOME
    return opened


def test_strangers_are_refused():
    sharing = Sharing(2)
    token = sharing.token()
    assert len(token) == protocol.TOKEN_BYTES
    for greeting in (
        protocol.GREETING.pack(protocol.MAGIC, bytes(32)),
        protocol.GREETING.pack(b"ecbpeer0", token),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".ljust(protocol.GREETING.size),
    ):
        with connect(sharing) as stranger:
            stranger.sendall(greeting)
            assert is_closed(stranger)
    read(sharing.caches[1], range(COUNT))
    sharing.close()


def test_invalid_requests_are_not_answered():
    sharing = Sharing(2)
    read(sharing.caches[0], [0])
    for request in (
        protocol.REQUEST.pack(9, 1) + protocol.pack_numbers([0]),
        protocol.REQUEST.pack(protocol.GET, 1) + protocol.pack_numbers([COUNT]),
        protocol.REQUEST.pack(protocol.GET, protocol.MOST_ITEMS + 1),
        protocol.REQUEST.pack(protocol.PUT, 1) + protocol.pack_numbers([0, 2**40]),
    ):
        with greeted(sharing) as peer:
            peer.sendall(request)
            assert is_closed(peer)
    torn = bytes(ItemEncoder(item(2)).encode(2))[:-1] + b"\x7f"
    with greeted(sharing) as peer:
        peer.sendall(
            protocol.REQUEST.pack(protocol.PUT, 2)
            + protocol.pack_numbers([2, 4, len(torn), len(torn)])
            + torn
            + torn
        )
        assert peer.recv(protocol.PUT_RESPONSE.size) == protocol.PUT_RESPONSE.pack(0)
    assert sharing.caches[0].stats().items == 1, "no damaged item is kept"
    read(sharing.caches[1], [0])
    assert sharing.reads == [0]
    sharing.close()


def test_the_address_of_a_rank_is_one_that_others_reach(monkeypatch):
    here, there = "boot 1", "boot 2"
    loopback, far, near = "127.0.1.1", "198.51.100.9", "198.51.100.1"
    assert membership.choose_address(0, [loopback, loopback], [here, here]) == loopback
    assert membership.choose_address(1, [loopback, far], [here, there]) == far
    monkeypatch.setattr(membership, "local_address_to", {far: near}.get)
    assert membership.choose_address(0, [loopback, far], [here, there]) == near
    assert membership.choose_address(0, [loopback, loopback], [here, there]) is None
    monkeypatch.setattr(membership, "local_address_to", lambda host: None)
    assert membership.choose_address(0, [loopback, far], [here, there]) is None


def test_the_address_near_a_local_store_is_the_loopback():
    assert membership.local_address_to("127.0.0.1") == "127.0.0.1"
    assert membership.address_near(object()) == "127.0.0.1"


def test_a_dropped_cache_serves_no_more():
    sharing = Sharing(2)
    address = sharing.listening(0)
    read(sharing.caches[1], range(COUNT))
    del sharing
    no_feeder()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, 10).close()
