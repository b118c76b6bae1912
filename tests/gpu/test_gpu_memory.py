"""Memory of the device and of the host: taken once, and given back."""

import resource
from pathlib import Path

import numpy as np
import pytest

import echobuf
from helpers import WAIT_S, Worker

pytestmark = pytest.mark.gpu
MB = 1 << 20
WINDOW = 256  # records of a megabyte


def make(**more):
    kwargs = {"batch_size": 16, "window": WINDOW, "factor": 4, **more}
    return echobuf.EchoBuffer(echobuf.Field((MB,), np.uint8), device="cuda", **kwargs)


def feed(buffer, count):
    one = np.ones((16, MB), np.uint8)
    for _ in range(count // 16):
        buffer.put_batch(one, timeout=WAIT_S)
    buffer.close()


def epoch(buffer, count=2 * WINDOW):
    """Serves out an epoch; how many draws came."""
    producer = Worker(feed, buffer, count)
    draws = sum(len(batch) for batch in buffer)
    producer.result()
    return draws


def resident_bytes():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def warm_up():
    """Take the memory that CUDA and CuPy take once and keep."""
    with make() as buffer:
        epoch(buffer)


def test_leaving_the_context_gives_all_of_it_back(cuda):
    warm_up()
    before, host_before = cuda.free(), resident_bytes()
    for _ in range(3):
        with make() as buffer:
            assert epoch(buffer) == 4 * 2 * WINDOW
            taken = before - cuda.free()
            stats = buffer.stats()
            assert WINDOW * MB <= stats.bytes_device <= taken + 2 * MB
            # A window, a segment, and what the driver rounds up.
            assert taken <= WINDOW * MB * 5 // 4 + 16 * MB
        assert before - cuda.free() <= 2 * MB
    assert resident_bytes() - host_before <= 32 * MB


def test_dropping_it_gives_all_of_it_back_too(cuda):
    warm_up()
    before = cuda.free()
    buffer = make()
    buffer.put_batch(np.ones((32, MB), np.uint8), timeout=WAIT_S)
    assert before - cuda.free() >= WINDOW * MB
    del buffer
    assert before - cuda.free() <= 2 * MB


def test_batches_outlive_their_buffer(cuda):
    with make() as buffer:
        buffer.put_batch(np.full((WINDOW, MB), 7, np.uint8), timeout=WAIT_S)
        batch = buffer.next_batch(timeout=WAIT_S)
    assert int(batch.min()) == int(batch.max()) == 7


def test_fifty_epochs_are_flat(cuda):
    with make(window=64) as buffer:
        free, resident = [], []
        for _ in range(50):
            assert epoch(buffer, 64) == 4 * 64
            buffer.reset()
            free.append(cuda.free())
            resident.append(resident_bytes())
    assert max(free[5:]) - min(free[5:]) <= 2 * MB
    assert max(resident[5:]) - resident[5] <= 16 * MB


def test_a_refused_buffer_keeps_nothing(cuda):
    warm_up()
    before = cuda.free()
    for _ in range(5):
        with pytest.raises(echobuf.CapacityError):
            make(max_bytes=WINDOW * MB)
    assert before - cuda.free() <= 2 * MB
