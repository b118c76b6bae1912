"""Counts of processes: the place of one that is gone is another's."""

import os

from cache_data import in_child
from echobuf.cache.counters import Counters

WIDTH = 2  # words of a process: who it is, its count


def owners(counters):
    return [owner for owner in counters._words[::WIDTH] if owner]


def test_the_place_of_a_process_that_is_gone_is_taken():
    counters = Counters(["hits"])
    counters.add(hits=1)
    for _ in range(5):
        in_child(lambda: counters.add(hits=2))
    assert counters.sums() == {"hits": 11}
    assert len(owners(counters)) == 2
    assert owners(counters)[0] == os.getpid()


def test_the_place_of_another_users_process_is_not(monkeypatch):
    def refuse(process, signal):
        raise PermissionError

    counters = Counters(["hits"])
    counters._words[0] = 12345
    monkeypatch.setattr(os, "kill", refuse)
    counters.add(hits=3)
    assert owners(counters) == [12345, os.getpid()]


def test_where_no_place_is_left_the_last_one_is_shared():
    counters = Counters(["hits"])
    for at in range(0, len(counters._words), WIDTH):
        counters._words[at] = os.getppid()
    counters._words[-1] = 4
    counters.add(hits=3)
    assert counters._words[-WIDTH] == os.getpid()
    assert counters.sums() == {"hits": 7}
