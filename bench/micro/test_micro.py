"""The calls of a buffer of small records, one by one (pytest-benchmark).

Not part of the tests; `bench/README.md` says how to run it.
"""

import numpy as np
import pytest

from echobuf import EchoBuffer, Field

BATCH = 256
WINDOW = 102_400  # a pass of 400 batches
ROUNDS = 300
SPEC = {"x": Field((32,), "f4"), "y": Field((), "i8")}


def records(count):
    rng = np.random.default_rng(0)
    return {"x": rng.random((count, 32), dtype=np.float32), "y": np.arange(count)}


def make_buffer(**options):
    return EchoBuffer(SPEC, batch_size=BATCH, window=WINDOW, factor=1, **options)


@pytest.fixture(scope="module")
def everything():
    return records(WINDOW)


@pytest.fixture
def full(everything):
    with make_buffer() as buffer:
        buffer.put_batch(everything)
        yield buffer


@pytest.fixture
def empty():
    with make_buffer() as buffer:
        yield buffer


def test_put(benchmark, empty):
    example = {"x": np.zeros(32, np.float32), "y": np.int64(1)}
    benchmark.pedantic(empty.put, (example,), rounds=ROUNDS, iterations=100)
    assert empty.stats().fresh >= ROUNDS * 100


def test_put_batch(benchmark, empty):
    batch = records(BATCH)
    benchmark.pedantic(empty.put_batch, (batch,), rounds=ROUNDS)
    assert empty.stats().fresh == ROUNDS * BATCH


def test_next_batch(benchmark, full):
    batch = benchmark.pedantic(full.next_batch, rounds=ROUNDS)
    assert batch["x"].shape == (BATCH, 32)
    assert full.stats().served == ROUNDS * BATCH


def test_next_batch_out(benchmark, full):
    out = records(BATCH)
    batch = benchmark.pedantic(full.next_batch, (out,), rounds=ROUNDS)
    assert batch is out


def test_next_batch_prefetched(benchmark, everything):
    with make_buffer(prefetch=4) as buffer:
        buffer.put_batch(everything)
        benchmark.pedantic(buffer.next_batch, rounds=ROUNDS)
        assert buffer.stats().served >= ROUNDS * BATCH


def test_ready(benchmark, full):
    assert benchmark(full.ready)


def test_state_dict(benchmark, full):
    full.next_batch()
    assert benchmark(full.state_dict)["fresh_offset"] == 0


def test_stats(benchmark, full):
    assert benchmark(full.stats).fresh == WINDOW
