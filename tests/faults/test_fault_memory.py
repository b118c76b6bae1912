"""An allocation that fails costs one call; nothing is lost, and the next goes on."""

import pytest

from programs import run

SETUP = """
import resource
from contextlib import contextmanager
import numpy as np
import optree  # which the first buffer imports
import pytest
import echobuf
from helpers import Worker, expected_batches
from records import Records

records = Records(100_000)  # 0.8 MB, so that each batch is a mapping of its own
kwargs = {"window": 8, "batch_size": 4, "factor": 2, "seed": 1, "drop_last": False}

@contextmanager
def no_memory():
    '''Nothing large can be allocated.'''
    with open("/proc/self/statm") as sizes:
        used = int(sizes.read().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**20, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
"""


def check(code: str) -> None:
    assert run(SETUP + code) == ""


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_buffer_that_does_not_fit_says_so_and_can_be_made_later(prefetch):
    check(f"""
for window in (8, 64):
    kwargs.update(window=window, prefetch={prefetch})
    with no_memory(), pytest.raises(echobuf.CapacityError, match="`window`"):
        echobuf.EchoBuffer(records.spec(), **kwargs)
    with echobuf.EchoBuffer(records.spec(), **kwargs) as buffer:
        buffer.put_batch(records.stacked(list(range(4))))
        buffer.close()
        assert records.ids(buffer.next_batch()) == expected_batches(kwargs, 4)[0]
""")


def test_a_thread_for_which_there_is_no_memory_is_a_capacity_error():
    check("""
tiny = echobuf.Field((), np.int64)
with no_memory(), pytest.raises(echobuf.CapacityError, match="`prefetch`"):
    echobuf.EchoBuffer(tiny, prefetch=1, **kwargs)
echobuf.EchoBuffer(tiny, prefetch=1, **kwargs)
""")


@pytest.mark.parametrize("prefetch", [0, 1, 3])
@pytest.mark.parametrize("factor", [2, 1.5, "auto"])
def test_the_batch_that_found_no_memory_is_the_next_one(prefetch, factor):
    check(f"""
kwargs.update(prefetch={prefetch}, factor={factor!r}, max_factor=1)
everything = records.stacked(list(range(40)))
held, failures = [], 0

def draw():
    held.append(buffer.next_batch(timeout=60))  # held: its memory is not used again

with echobuf.EchoBuffer(records.spec(), **kwargs) as buffer:
    producer = Worker(buffer.put_batch, everything)
    try:
        while True:
            try:
                with no_memory():
                    draw()
            except echobuf.CapacityError:
                failures += 1
                if failures % 3 == 0:  # it can fail again and again
                    draw()
            if buffer.stats().fresh == 40:
                buffer.close()
    except StopIteration:
        pass
    producer.result()
got = [records.ids(batch) for batch in held]
if kwargs["factor"] == "auto":
    assert sorted(sum(got, [])) == list(range(40))
else:
    assert got == expected_batches(kwargs, 40)
assert failures > 5
""")


def test_a_put_that_finds_no_memory_to_convert_puts_nothing():
    check("""
strided = echobuf.Field((100_000,), np.uint64)
batch = np.arange(6 * 200_000, dtype=np.uint64).reshape(6, -1)[:, ::2]
with echobuf.EchoBuffer(strided, **kwargs) as buffer:
    with no_memory(), pytest.raises(MemoryError):
        buffer.put_batch(batch)
    assert buffer.stats().fresh == 0
    buffer.put_batch(batch)
    buffer.close()
    firsts = sorted(int(row[0]) for drawn in buffer for row in drawn)
    assert firsts == sorted(2 * [number * 200_000 for number in range(6)])
""")
