"""What comes over a rank's socket, and from whom."""

from __future__ import annotations

import socket

import pytest

pytest.importorskip("torch")

from cache_data import COUNT, item
from echobuf.cache import record
from echobuf.cache.distributed import address, frames
from leaked_threads import no_feeder
from sharing_ranks import Sharing, read

pytestmark = pytest.mark.usefixtures("ranks_here")


def connect(cache):
    opened = socket.create_connection(("127.0.0.1", cache._server.port), 10)
    opened.settimeout(10)
    return opened


def closed(opened):
    """Whether the other side has hung up, without a word."""
    try:
        return opened.recv(1) == b""
    except ConnectionError:
        return True


def greeted(sharing):
    opened = connect(sharing.caches[0])
    token = sharing.caches[1]._sharing.peers._token
    opened.sendall(frames.GREETING.pack(frames.MAGIC, token))
    assert opened.recv(8) == frames.WELCOME
    return opened


def test_strangers_are_refused():
    sharing = Sharing(2)
    one, two = sharing.caches
    assert one._server is not None
    token = two._sharing.peers._token
    assert len(token) == frames.TOKEN_BYTES
    for said in (
        frames.GREETING.pack(frames.MAGIC, bytes(32)),
        frames.GREETING.pack(b"ecbpeer0", token),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".ljust(frames.GREETING.size),
    ):
        with connect(one) as stranger:
            stranger.sendall(said)
            assert closed(stranger)
    read(two, range(COUNT))
    sharing.close()


def test_what_no_rank_says_is_not_answered():
    sharing = Sharing(2)
    read(sharing.caches[0], [0])
    for request in (
        frames.REQUEST.pack(9, 1) + frames.words([0]),
        frames.REQUEST.pack(frames.ASK, 1) + frames.words([COUNT]),
        frames.REQUEST.pack(frames.ASK, frames.MOST_ITEMS + 1),
        frames.REQUEST.pack(frames.GIVE, 1) + frames.words([0, 2**40]),
    ):
        with greeted(sharing) as peer:
            peer.sendall(request)
            assert closed(peer)
    torn = bytes(record.Draft(item(2)).seal(2))[:-1] + b"\x7f"
    with greeted(sharing) as peer:
        peer.sendall(
            frames.REQUEST.pack(frames.GIVE, 2)
            + frames.words([2, 4, len(torn), len(torn)])
            + torn
            + torn
        )
        assert peer.recv(frames.TAKEN.size) == frames.TAKEN.pack(0)
    assert sharing.caches[0].stats().items == 1, "nothing unsound is kept"
    read(sharing.caches[1], [0])
    assert sharing.reads == [0]
    sharing.close()


def test_where_a_rank_is_reached(monkeypatch):
    here, there = "boot 1", "boot 2"
    loopback, far, near = "127.0.1.1", "198.51.100.9", "198.51.100.1"
    assert address.choose(0, [loopback, loopback], [here, here]) == loopback
    assert address.choose(1, [loopback, far], [here, there]) == far
    monkeypatch.setattr(address, "towards", {far: near}.get)
    assert address.choose(0, [loopback, far], [here, there]) == near
    assert address.choose(0, [loopback, loopback], [here, there]) is None
    monkeypatch.setattr(address, "towards", lambda host: None)
    assert address.choose(0, [loopback, far], [here, there]) is None


def test_the_way_to_this_machine():
    assert address.towards("127.0.0.1") == "127.0.0.1"
    assert address.near(object()) == "127.0.0.1"


def test_a_dropped_cache_serves_no_more():
    sharing = Sharing(2)
    port = sharing.caches[0]._server.port
    read(sharing.caches[1], range(COUNT))
    del sharing
    no_feeder()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 10).close()
