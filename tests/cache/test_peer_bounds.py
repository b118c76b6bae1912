"""Messages between ranks, at their bounds."""

import pytest

from cache_data import item, size_of
from echobuf.cache.distributed import frames, peers
from echobuf.cache.distributed.holdings import Holdings
from echobuf.cache.distributed.losses import Losses
from echobuf.cache.distributed.options import check_wait
from echobuf.cache.distributed.server import Server
from echobuf.cache.distributed.sharing import Sharing
from echobuf.cache.memory import MemoryStore
from echobuf.errors import OptionError

TOKEN = bytes(32)


@pytest.mark.parametrize("seconds", [1e-3, 1, 1e6])
def test_waits_within_bounds(seconds):
    assert check_wait(seconds) == seconds


@pytest.mark.parametrize("seconds", [0, -1, 1e6 + 0.5, float("inf")])
def test_waits_out_of_bounds(seconds):
    with pytest.raises(OptionError, match=r"`timeout_s` is .* at most 1e6"):
        check_wait(seconds)


def test_a_request_of_the_most_items_is_answered(monkeypatch):
    monkeypatch.setattr(frames, "MOST_ITEMS", 4)
    store = MemoryStore(8, 10**5)
    server = Server("127.0.0.1", token=TOKEN, store=store, length=8, max_bytes=10**5)
    asked = peers.Peers([("", 0), ("127.0.0.1", server.port)], TOKEN, 30.0)
    lost = []
    try:
        answers = asked.fetch({1: range(4)}, lambda rank, error: lost.append(rank))
        assert answers[1][0] == [b""] * 4
        assert not lost
        assert asked.fetch({1: range(5)}, lambda rank, _: lost.append(rank)) == {}
        assert lost == [1]
    finally:
        asked.close()
        server.close()


class Line:
    """A connection whose first answers fail."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.asked = 0

    def answer(self, count):
        if self.errors:
            raise self.errors.pop(0)
        return [bytearray()] * count, 7

    def ask(self, numbers):
        self.asked += 1

    def is_open(self):
        return False

    def hang_up(self):
        pass


def test_a_connection_that_was_there_and_has_gone_is_asked_again_once():
    line = Line(ConnectionResetError())
    assert peers._finish(line, [1, 2], reused=True) == ([b"", b""], 7)
    assert line.asked == 1
    for line, reused in (
        (Line(ConnectionResetError()), False),  # a new one
        (Line(TimeoutError()), True),  # silent, not gone
        (Line(ConnectionResetError(), ConnectionResetError()), True),
    ):
        asked = len(line.errors) - 1
        with pytest.raises((ConnectionResetError, TimeoutError)):
            peers._finish(line, [1], reused=reused)
        assert line.asked == asked


def test_nothing_is_sent_where_nothing_fits():
    class Ranks:
        ranks = 2

        def give(self, rank, given):
            sent.append((rank, len(given)))

    class Counted:
        def add(self, **counts):
            pass

    sent = []
    sharing = Sharing(Ranks(), 0, Losses([0, 1], "storage"), Counted())
    size = size_of(item(1))
    sharing.give({1: item(1)}, {1: size - 1})
    sharing.give({2: item(2)}, {1: size})  # of another rank's share
    assert sent == []
    sharing.give({1: item(1)}, {1: size})
    assert sent == [(1, 1)]


@pytest.mark.parametrize(("room", "is_open"), [(0, False), (60, False), (101, True)])
def test_a_rank_is_open_while_one_more_item_like_its_own_fits(room, is_open):
    import numpy as np

    class Store:
        def flush(self):
            pass

        def contents(self):
            return 1, 100

        def held(self, count):
            return np.zeros(count, np.bool_)

        def room(self):
            return room

    class Alone:
        size, rank = 1, 0

    holdings = Holdings(Alone(), Store(), 4, Losses([0], "storage"), "storage")
    assert holdings._holds()["open"] is is_open
