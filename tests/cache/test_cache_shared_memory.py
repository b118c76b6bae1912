"""Memory that processes share, the lock on it, and counters in it."""

import fcntl
import gc
import os
import resource
import signal

import pytest

import echobuf
from cache_data import in_child
from echobuf.cache.memory import SharedCounters, SharedMemory


def test_one_process_holds_the_lock_until_it_is_killed():
    memory = SharedMemory(16)
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with memory.locked():
                os.write(sender, b".")
                signal.pause()
        finally:
            os._exit(1)
    try:
        assert os.read(receiver, 1) == b"."
        with pytest.raises(BlockingIOError):
            fcntl.lockf(memory.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(receiver)
        os.close(sender)
    with memory.locked():
        memory.view[0] = 1


def test_bytes_of_one_process_are_read_by_all():
    memory = SharedMemory(4)

    def write():
        memory.view[1] = 7

    in_child(write)
    assert bytes(memory.view) == b"\0\7\0\0"


def test_dropped_memory_leaves_no_descriptor_open():
    gc.collect()  # objects of earlier tests
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(3):
        SharedMemory(16)
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_refused_memory_is_a_capacity_error():
    def refused():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        before = sorted(os.listdir("/proc/self/fd"))
        with pytest.raises(echobuf.CapacityError, match="`max_bytes` smaller"):
            SharedMemory(2000)
        assert sorted(os.listdir("/proc/self/fd")) == before

    in_child(refused)


# ---- counters

WIDTH = 2  # words of a slot: its process, and the count


def words_of(counters):
    return counters.memory.view.cast("Q")


def owners(counters):
    return [owner for owner in words_of(counters)[::WIDTH] if owner]


def test_the_slot_of_an_ended_process_is_reused():
    counters = SharedCounters(["hits"])
    counters.add(hits=1)
    for _ in range(5):
        in_child(lambda: counters.add(hits=2))
    assert counters.sums() == {"hits": 11}
    assert len(owners(counters)) == 2
    assert owners(counters)[0] == os.getpid()


def test_the_slot_of_another_users_process_is_not_reused(monkeypatch):
    def refuse(process, signal):
        raise PermissionError

    counters = SharedCounters(["hits"])
    words_of(counters)[0] = 12345
    monkeypatch.setattr(os, "kill", refuse)
    counters.add(hits=3)
    assert owners(counters) == [12345, os.getpid()]


def test_without_a_free_slot_the_last_one_is_shared():
    counters = SharedCounters(["hits"])
    words = words_of(counters)
    for at in range(0, len(words), WIDTH):
        words[at] = os.getppid()
    words[-1] = 4
    counters.add(hits=3)
    assert words[-WIDTH] == os.getpid()
    assert counters.sums() == {"hits": 7}


def test_a_child_forked_while_a_thread_holds_the_lock_can_count():
    counters = SharedCounters(["hits"])
    counters.add(hits=1)
    with counters.lock:
        in_child(lambda: counters.add(hits=2))
    assert counters.sums() == {"hits": 3}
