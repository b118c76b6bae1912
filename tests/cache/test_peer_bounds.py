"""Bounds of messages between ranks, and of their arguments."""

import pytest

from cache_data import item, size_of
from echobuf.cache.distributed import server as protocol
from echobuf.cache.distributed.dataset import check_timeout_s
from echobuf.cache.distributed.membership import Holdings, LostRanks
from echobuf.cache.distributed.peers import PeerClient, SharedItems, receive_response
from echobuf.cache.distributed.server import CacheServer
from echobuf.cache.memory import MemoryStore
from echobuf.errors import OptionError

TOKEN = bytes(32)


@pytest.mark.parametrize("seconds", [1e-3, 1, 1e6])
def test_timeouts_within_bounds_are_accepted(seconds):
    assert check_timeout_s(seconds) == seconds


@pytest.mark.parametrize("seconds", [0, -1, 1e6 + 0.5, float("inf")])
def test_timeouts_out_of_bounds_are_refused(seconds):
    with pytest.raises(OptionError, match=r"`timeout_s` is .* at most 1e6"):
        check_timeout_s(seconds)


def test_a_request_of_the_most_items_is_answered(monkeypatch):
    monkeypatch.setattr(protocol, "MOST_ITEMS", 4)
    store = MemoryStore(8, 10**5)
    server = CacheServer(
        "127.0.0.1", token=TOKEN, store=store, length=8, max_bytes=10**5
    )
    client = PeerClient([("", 0), ("127.0.0.1", server.port)], TOKEN, 30.0)
    lost = []
    try:
        answers = client.fetch({1: range(4)}, lambda rank, error: lost.append(rank))
        assert answers[1][0] == [b""] * 4
        assert not lost
        assert client.fetch({1: range(5)}, lambda rank, _: lost.append(rank)) == {}
        assert lost == [1]
    finally:
        client.close()
        server.close()


class Connection:
    """A connection whose first responses fail."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.requests = 0

    def receive_items(self, count):
        if self.errors:
            raise self.errors.pop(0)
        return [bytearray()] * count, 7

    def send_get(self, numbers):
        self.requests += 1

    def is_open(self):
        return False

    def close(self):
        pass


def test_a_request_on_a_reused_connection_that_has_gone_is_sent_once_more():
    connection = Connection(ConnectionResetError())
    assert receive_response(connection, [1, 2], reused=True) == ([b"", b""], 7)
    assert connection.requests == 1
    for connection, reused in (
        (Connection(ConnectionResetError()), False),  # a new one
        (Connection(TimeoutError()), True),  # silent, not gone
        (Connection(ConnectionResetError(), ConnectionResetError()), True),
    ):
        expected = len(connection.errors) - 1
        with pytest.raises((ConnectionResetError, TimeoutError)):
            receive_response(connection, [1], reused=reused)
        assert connection.requests == expected


def test_items_that_do_not_fit_are_not_sent():
    class Ranks:
        ranks = 2

        def put(self, rank, items):
            sent.append((rank, len(items)))

    class Counted:
        def add(self, **counts):
            pass

    sent = []
    shared = SharedItems(Ranks(), 0, LostRanks([0, 1], "storage"), Counted())
    size = size_of(item(1))
    shared.give({1: item(1)}, {1: size - 1})
    shared.give({2: item(2)}, {1: size})  # of another rank's partition
    assert sent == []
    shared.give({1: item(1)}, {1: size})
    assert sent == [(1, 1)]


@pytest.mark.parametrize(("free", "is_open"), [(0, False), (60, False), (101, True)])
def test_a_rank_is_open_while_one_more_item_like_its_own_fits(free, is_open):
    import numpy as np

    class Store:
        def flush(self):
            pass

        def usage(self):
            return 1, 100

        def stored_mask(self, count):
            return np.zeros(count, np.bool_)

        def free_bytes(self):
            return free

    class Alone:
        size, rank = 1, 0

    holdings = Holdings(Alone(), Store(), 4, LostRanks([0], "storage"), "storage")
    assert holdings.report()["open"] is is_open
