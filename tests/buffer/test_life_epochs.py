"""Another epoch in the same memory; what stats say; several threads at once."""

import dataclasses
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from helpers import (
    KWARGS,
    SPEC,
    WAIT_S,
    Worker,
    drain,
    example,
    expected_batches,
    feed,
    ids_of,
    make,
    on_device,
    options,
    pump,
    put_all,
    put_what_fits,
    stack,
    until,
)

pytestmark = pytest.mark.contract

# ---- reset


@settings(deadline=None, max_examples=40)
@given(
    options(),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), min_size=2, max_size=4),
)
def test_an_epoch_left_anywhere_changes_nothing_about_the_next(kwargs, epochs):
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        for number, (n, cut) in enumerate(epochs):
            expected = expected_batches(kwargs, n, number)
            turns = pump(buffer, range(n), [5, 0])
            got = [batch for batch, _ in zip(turns, range(cut), strict=False)]
            assert got == expected[:cut]
            buffer.close()
            buffer.reset()
        last = list(pump(buffer, range(30), [11]))
        assert last == expected_batches(kwargs, 30, len(epochs))


@pytest.mark.parametrize("prefetch", [0, 2])
def test_reset_names_the_epoch(prefetch):
    served = {}
    with make(prefetch=prefetch) as buffer:
        for epoch in (None, 7, None, 0, 2**63 - 1, 7):
            buffer.reset(epoch)
            number = buffer.state_dict()["epoch"]
            assert number == (epoch if epoch is not None else 1 if not served else 8)
            buffer.put_batch(stack(range(12)))
            buffer.close()
            order = [ids_of(batch) for batch in buffer]
            assert order == expected_batches(KWARGS, 12, number)
            assert served.setdefault(number, order) == order
    assert len({str(order) for order in served.values()}) == len(served)


def test_reset_allocates_nothing_and_starts_the_counts_anew():
    with make(prefetch=2) as buffer:
        base = buffer.stats()
        for _ in range(20):
            put_what_fits(buffer, range(18))
            buffer.close()
            assert list(drain(buffer))
            buffer.reset()
            after = buffer.stats()
            assert after.bytes_host <= base.bytes_host + 8 * 4 * 400
            assert dataclasses.replace(after, bytes_host=base.bytes_host) == base


def test_reset_lets_waiting_producers_go_and_keeps_waiting_consumers():
    with make(batch_size=12) as buffer:
        consumer = Worker(buffer.next_batch)
        producer = Worker(buffer.put_batch, stack(range(100)))
        consumer.result()
        until(lambda: buffer.stats().put_wait_s > 0)
        buffer.reset()
        with pytest.raises(echobuf.ClosedError):
            producer.result()
        consumer = Worker(buffer.next_batch)
        buffer.reset(5)
        buffer.put_batch(stack(range(12)))
        buffer.close()
        assert (
            ids_of(consumer.result())
            == expected_batches({**KWARGS, "batch_size": 12}, 12, 5)[0]
        )


# ---- stats, ready


@settings(deadline=None, max_examples=40)
@given(options(), st.integers(0, 90))
def test_stats_add_up(kwargs, n):
    kwargs = {**kwargs, "prefetch": 0}
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        served = 0
        for batch in pump(buffer, range(n), [7]):
            served += len(batch)
            stats = buffer.stats()
            assert stats.served == served
            assert stats.fresh >= len(set(batch))
            assert stats.effective_factor == served / stats.fresh
            assert 0 <= stats.resident <= stats.fresh
            assert (stats.bytes_device > 0) == on_device()
            assert stats.passes >= 1
        assert buffer.stats().fresh == n
        if not kwargs["drop_last"]:
            assert buffer.stats().resident == 0


def test_stats_are_frozen_and_time_waits():
    with make() as buffer:
        stats = buffer.stats()
        with pytest.raises(dataclasses.FrozenInstanceError):
            stats.fresh = 1
        assert stats.effective_factor == stats.put_wait_s == stats.next_wait_s == 0


def test_waits_count_while_they_go_on_and_no_longer():
    with make() as buffer:
        begin = time.perf_counter()
        draws = Worker(buffer.next_batch)
        until(lambda: buffer.stats().next_wait_s > 0.02)
        put_all(buffer, range(12), [4])
        draws.result()
        waited_s = buffer.stats().next_wait_s
        assert 0.02 < waited_s <= time.perf_counter() - begin
        put_what_fits(buffer, range(99))
        begin = time.perf_counter()
        before_s = buffer.stats().put_wait_s
        puts = Worker(buffer.put, example(99))
        until(lambda: buffer.stats().put_wait_s - before_s > 0.02)
        buffer.close()
        with pytest.raises(echobuf.ClosedError):
            puts.result()
        put_wait_s = buffer.stats().put_wait_s - before_s
        assert 0.02 < put_wait_s <= time.perf_counter() - begin
        assert buffer.stats().next_wait_s >= waited_s


@settings(deadline=None, max_examples=40)
@given(options(), st.integers(0, 60))
def test_ready_says_whether_a_draw_would_wait(kwargs, n):
    kwargs = {**kwargs, "prefetch": 0}
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        for number in range(n):
            ready = buffer.ready()
            if ready:
                ids_of(buffer.next_batch(timeout=0))
            else:
                with pytest.raises(TimeoutError):
                    buffer.next_batch(timeout=0)
                buffer.put_batch(stack([number]), timeout=0)
        buffer.close()
        while True:
            assert buffer.ready()
            try:
                buffer.next_batch(timeout=0)
            except StopIteration:
                break


# ---- several threads


@pytest.mark.parametrize("n", [12, 13, 18, 19, 200])
def test_a_put_larger_than_the_window_goes_in_as_room_comes(n):
    with make() as buffer:
        producer = Worker(buffer.put_batch, stack(range(n)), WAIT_S)
        closer = Worker(lambda: (producer.result(), buffer.close()))
        assert list(drain(buffer)) == expected_batches(KWARGS, n)
        closer.result()


# ---- max_bytes

LARGE = {"batch_size": 64, "window": 256}


def needed_bytes(max_bytes, **kwargs):
    """The bytes needed that the error speaks of; None: they are allowed."""
    try:
        echobuf.EchoBuffer(SPEC, max_bytes=max_bytes, **LARGE, **kwargs)
    except echobuf.CapacityError as error:
        text = str(error)
    else:
        return None
    assert "`max_bytes`" in text
    assert "`window`" in text
    return int(re.search(r"needs ([\d,]+)", text)[1].replace(",", ""))


@pytest.mark.parametrize("prefetch", [0, 3])
@pytest.mark.parametrize("factor", [2, 1.5, "auto"])
class TestMaxBytes:
    def test_the_bytes_that_the_error_asks_for_are_enough(self, factor, prefetch):
        needed = needed_bytes(10, factor=factor, prefetch=prefetch)
        assert needed_bytes(needed, factor=factor, prefetch=prefetch) is None
        assert needed_bytes(needed - 1, factor=factor, prefetch=prefetch) == needed

    def test_it_holds_all_that_the_buffer_takes(self, factor, prefetch):
        kwargs = {"factor": factor, "prefetch": prefetch}
        enough = 10
        while (needed := needed_bytes(enough, **kwargs)) is not None:
            enough = needed
        with echobuf.EchoBuffer(SPEC, max_bytes=enough, **LARGE, **kwargs) as buffer:
            producer = Worker(feed, buffer, range(900), [64])
            for batch in buffer:
                del batch  # all that is left is the buffer's own
                stats = buffer.stats()
                taken = stats.bytes_device if on_device() else stats.bytes_host
                assert taken <= enough
            producer.result()
