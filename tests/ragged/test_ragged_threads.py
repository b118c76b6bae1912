"""Ragged records from many threads, with any factor: each as often as it must be."""

import collections
import threading

import pytest
from ragged_records import (
    SPEC,
    SPEC_OF_LENGTHS,
    batch_of,
    check,
    lengths_of,
    put_all,
)

import echobuf
from helpers import WAIT_S, Worker

pytestmark = pytest.mark.contract

N = 600
LENGTHS = [(number * 7 % 11, number * 5 % 6) for number in range(N)]


def run(buffer, kwargs, producers, consumers):
    """How often each record is served, in an epoch of several threads."""
    counts = collections.Counter()
    adding = threading.Lock()

    def consume():
        while True:
            try:
                batch = buffer.next_batch(timeout=WAIT_S)
            except StopIteration:
                return
            ids = check(batch, kwargs)
            assert lengths_of(batch) == [LENGTHS[number] for number in ids]
            with adding:
                counts.update(ids)

    putting = [
        Worker(put_all, buffer, range(first, N, producers), LENGTHS, [3, 0, 17])
        for first in range(producers)
    ]
    drawing = [Worker(consume) for _ in range(consumers)]
    for worker in putting:
        worker.result()
    buffer.close()
    for worker in drawing:
        worker.result()
    return counts


@pytest.mark.parametrize("ragged", ["packed", "padded"])
@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_fixed_factor_is_exact_whatever_threads_do(ragged, prefetch):
    kwargs = {"batch_size": 9, "window": 40, "factor": 3, "payload_bytes": 1500}
    kwargs |= {"ragged": ragged, "prefetch": prefetch}
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        counts = run(buffer, kwargs, producers=3, consumers=2)
        assert counts == dict.fromkeys(range(N), 3)
        assert buffer.stats().effective_factor == 3


def test_a_fractional_factor_gives_floor_or_ceil():
    kwargs = {"batch_size": 9, "window": 40, "factor": 2.5, "payload_bytes": 1500}
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        counts = run(buffer, kwargs, producers=2, consumers=2)
    assert counts.keys() == set(range(N))
    assert set(counts.values()) == {2, 3}


@pytest.mark.parametrize("size", [{"batch_size": 8}, {"max_rows": 60}], ids=str)
@pytest.mark.parametrize("limit", [{"payload_bytes": 2500}, {}], ids=str)
def test_auto_serves_each_at_least_once_and_at_most_max_factor_times(size, limit):
    spec = SPEC if limit else SPEC_OF_LENGTHS
    lengths = [(a % 10, b) for a, b in LENGTHS]
    kwargs = {"window": 64, "factor": "auto", "max_factor": 4, **size, **limit}
    with echobuf.EchoBuffer(spec, **kwargs) as buffer:
        feeder = Worker(put_all, buffer, range(N), lengths, [8, 0, 1])
        counts = collections.Counter()
        while True:
            if not feeder.is_alive():
                buffer.close()
            try:
                batch = buffer.next_batch(
                    timeout=WAIT_S if not feeder.is_alive() else 0.01
                )
            except TimeoutError:
                continue
            except StopIteration:
                break
            counts.update(check(batch, kwargs))
        feeder.result()
    assert counts.keys() == set(range(N))
    assert max(counts.values()) <= 4


def test_an_error_of_upstream_comes_to_the_consumer():
    kwargs = {"batch_size": 4, "window": 8, "factor": 2, "payload_bytes": 400}
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        put_all(buffer, range(6), LENGTHS, [2])
        buffer.fail(OSError("gone"))
        with pytest.raises(echobuf.UpstreamError, match="gone"):
            buffer.next_batch(timeout=WAIT_S)
        buffer.reset()
        put_all(buffer, range(6), LENGTHS, [2])
        buffer.close()
        assert sum(len(check(batch, kwargs)) for batch in buffer) == 12


def test_a_put_waits_for_payload_and_goes_on_when_batches_are_drawn():
    kwargs = {"batch_size": 4, "window": 100, "factor": 1, "payload_bytes": 40_000}
    big = [(3000, 0)] * 40  # 12,000 bytes: three in a window
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        with pytest.raises(TimeoutError) as caught:
            buffer.put_batch(batch_of(range(40), big), timeout=0)
        held = buffer.stats().fresh
        assert caught.value.accepted == held
        assert 3 <= held < 40  # the payload is full, the slots are not
        producer = Worker(put_all, buffer, range(held, 40), big, [1])
        served = 0
        while served < 36:
            served += len(check(buffer.next_batch(timeout=WAIT_S), kwargs))
        producer.result()
        buffer.close()
        served += sum(len(check(batch, kwargs)) for batch in buffer)
    assert served == 40
