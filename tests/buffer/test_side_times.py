"""`stats()`: what each side takes by itself, and the share of waiting."""

import dataclasses
import math
import time

import numpy as np
import pytest

import echobuf
from helpers import Worker, make, put_what_fits, stack, until

pytestmark = pytest.mark.contract

TINY_S = 1e-6  # what is rounded
CLOCKS = ("t_upstream_s", "t_downstream_s", "ratio", "wait_share")


def serve(buffer, ids, *, upstream_s=0.0, downstream_s=0.0):
    """Puts one by one and draws as batches come, each side slow as told.

    The stats, and how long putting and drawing took in all.
    """
    start = time.perf_counter()
    for number in ids:
        time.sleep(upstream_s)
        buffer.put_batch(stack([number]))
    buffer.close()
    closed = time.perf_counter()
    for _ in buffer:
        time.sleep(downstream_s)
    return buffer.stats(), closed - start, time.perf_counter() - closed


def check(stats):
    assert 0 <= stats.wait_share <= 1
    assert stats.ratio == pytest.approx(stats.t_upstream_s / stats.t_downstream_s)


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("slow", [{"upstream_s": 0.005}, {"downstream_s": 0.02}])
def test_a_side_takes_what_it_sleeps_and_no_more_than_it_was_at_it(slow, prefetch):
    """Whichever side is slow, and however slow the machine is."""
    with make(prefetch=prefetch) as buffer:
        for _ in range(2):
            stats, upstream_s, downstream_s = serve(buffer, range(12), **slow)
            check(stats)
            # The first put takes no time: nothing tells since when it was prepared.
            assert slow.get("upstream_s", 0) <= stats.t_upstream_s
            assert stats.t_upstream_s * 11 <= upstream_s + TINY_S
            assert slow.get("downstream_s", 0) / 4 <= stats.t_downstream_s
            assert stats.t_downstream_s * 24 <= downstream_s + TINY_S
            buffer.reset()


def test_nothing_is_known_before_it_is_measured():
    with make() as buffer:
        for _ in range(2):
            stats = buffer.stats()
            assert all(math.isnan(getattr(stats, name)) for name in CLOCKS[:3])
            assert stats.wait_share == 0
            serve(buffer, range(12))
            check(buffer.stats())
            buffer.reset()


def test_what_is_waited_for_is_not_a_sides_own_time():
    with make() as buffer:
        start = time.perf_counter()
        buffer.put_batch(stack(range(2)))
        producer = Worker(buffer.put_batch, stack(range(2, 200)))
        until(lambda: buffer.stats().put_wait_s > 0.2)
        full = buffer.stats()
        wall_s = time.perf_counter() - start
        own_s = full.t_upstream_s * (full.fresh - 2)
        assert own_s <= wall_s - full.put_wait_s + 1e-6
        consumer = Worker(lambda: list(buffer))
        producer.result()
        until(lambda: buffer.stats().next_wait_s > 0.1)
        buffer.close()
        consumer.result()
        stats = buffer.stats()
        check(stats)
        assert stats.wait_share > 0


def test_comparing_leaves_out_what_moves_on():
    with make() as buffer:
        put_what_fits(buffer, range(6))
        put_what_fits(buffer, range(6, 9))
        one = buffer.stats()
        time.sleep(0.002)
        two = buffer.stats()
        assert two.t_upstream_s > one.t_upstream_s
        assert two == one
    left_out = [f.name for f in dataclasses.fields(echobuf.Stats) if not f.compare]
    may_be_nan = ["mean_rows", "padding_share"]
    assert left_out == [*CLOCKS, *may_be_nan]


def test_a_loader_tells_them_too():
    class Slow:
        def __iter__(self):
            for number in range(24):
                time.sleep(0.003)
                if number == 16:  # for longer than any machine takes to draw the rest
                    until(lambda: loader.stats().next_wait_s > 0.02)
                yield np.int64(number)

    loader = echobuf.EchoLoader(Slow(), batch_size=4, window=12, factor=2)
    assert math.isnan(loader.stats().ratio)
    for epoch in range(2):
        start = time.perf_counter()
        assert len(list(loader)) == 12, epoch
        wall_s = time.perf_counter() - start
        stats = loader.stats()
        check(stats)
        assert stats.t_upstream_s >= 0.003
        assert stats.next_wait_s > 0.02
        assert stats.t_downstream_s * 48 + stats.next_wait_s <= wall_s + TINY_S
        assert stats.wait_share >= stats.next_wait_s / wall_s - TINY_S
