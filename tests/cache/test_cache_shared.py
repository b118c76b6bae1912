"""Memory that processes share, and the lock on it."""

import fcntl
import gc
import os
import resource
import signal

import pytest

import echobuf
from cache_data import in_child
from echobuf.cache.shared import SharedMemory


def test_one_process_holds_the_lock_until_it_is_killed():
    memory = SharedMemory(16)
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with memory.locked():
                os.write(tell, b".")
                signal.pause()
        finally:
            os._exit(1)
    try:
        assert os.read(told, 1) == b"."
        with pytest.raises(BlockingIOError):
            fcntl.lockf(memory._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(told)
        os.close(tell)
    with memory.locked():
        memory.view[0] = 1


def test_what_one_process_writes_all_see():
    memory = SharedMemory(4)

    def write():
        memory.view[1] = 7

    in_child(write)
    assert bytes(memory.view) == b"\0\7\0\0"


def test_nothing_is_left_open():
    gc.collect()  # what earlier tests have left
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(3):
        SharedMemory(16)
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_memory_that_the_system_refuses_is_an_error_that_says_so():
    def refused():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        before = sorted(os.listdir("/proc/self/fd"))
        with pytest.raises(echobuf.CapacityError, match="`max_bytes` smaller"):
            SharedMemory(2000)
        assert sorted(os.listdir("/proc/self/fd")) == before

    in_child(refused)
