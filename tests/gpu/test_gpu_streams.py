"""Batches are valid on their stream, however late uploads and consumers are."""

from collections import Counter
from itertools import zip_longest

import numpy as np
import pytest

import echobuf
from gpu_records import SPEC, feed, ids_of, stack
from helpers import WAIT_S, Worker

KWARGS = {"batch_size": 16, "window": 96, "factor": 2, "seed": 3}


def make(device, **more):
    return echobuf.EchoBuffer(SPEC, device=device, **{**KWARGS, **more})


def expected(count, **more):
    """The ids of all batches, on the CPU."""
    with make("cpu", **more) as buffer:
        producer = Worker(feed, buffer, count)
        batches = [ids_of(batch) for batch in buffer]
        producer.result()
        return batches


def sizes(place):
    return 400 if place.simulated else 4000


@pytest.mark.parametrize("how", ["current", "stream=", "handle", "protocol", "out="])
def test_a_slow_consumer_keeps_what_it_has_not_drawn_yet(place, how):
    """Draws wait on the stream, long after the host has gone on to the next ones."""
    count = sizes(place)
    stream = place.stream()
    with make("cuda") as buffer:
        producer = Worker(feed, buffer, count)
        draw = drawing(place, buffer, stream, how)
        held = []
        while True:
            place.spin(stream, 0.5)
            try:
                held.append(draw())
            except StopIteration:
                break
        with stream:
            assert [ids_of(place.host(batch)) for batch in held] == expected(count)
        producer.result()


class Spoken:
    """A stream of whoever speaks the protocol."""

    def __init__(self, ptr):
        self.ptr_ = ptr

    def __cuda_stream__(self):
        return (0, self.ptr_)


def drawing(place, buffer, stream, how):
    """One of the ways to say where a batch is to be valid."""
    if how == "current":

        def draw():
            with stream:
                return buffer.next_batch(timeout=WAIT_S)

        return draw
    if how == "out=":

        def draw():
            with stream:
                first = {
                    "id": empty(place, (16,), np.int64),
                    "body": (
                        empty(place, (16, 3, 5), np.float32),
                        empty(place, (16, 7), np.uint8),
                    ),
                }
                return buffer.next_batch(out=first, timeout=WAIT_S)

        return draw
    given = {"stream=": stream, "handle": stream.ptr, "protocol": Spoken(stream.ptr)}
    return lambda: buffer.next_batch(timeout=WAIT_S, stream=given[how])


def empty(place, shape, dtype):
    """An array that can be given as `out`."""
    module = np if place.simulated else place.cupy
    return module.empty(shape, dtype)


def test_a_draw_waits_for_a_late_upload(place):
    """The bus is busy with others' copies when a batch is put and drawn at once."""
    size = 5000 if place.simulated else 1 << 20
    spec = echobuf.Field((size,), np.uint8)
    stream = place.stream()
    with echobuf.EchoBuffer(
        spec, batch_size=4, window=4, factor=1, device="cuda"
    ) as buffer:
        for turn in range(20):
            fresh = np.arange(4, dtype=np.uint8)[:, None] + np.full(
                size, 4 * turn, np.uint8
            )
            place.crowd_bus()
            buffer.put_batch(fresh, timeout=WAIT_S)
            with stream:
                batch = place.host(buffer.next_batch(timeout=WAIT_S))
            batch = batch[np.argsort(batch[:, 0])]
            np.testing.assert_array_equal(batch, fresh)


def consume(place, buffer, stream):
    """Draws on a stream of its own until nothing is left; all ids."""
    held = []
    with stream:
        for turn in range(10**9):
            if turn % 3 == 0:
                place.spin(stream, 0.3)
            try:
                held.append(buffer.next_batch(timeout=WAIT_S))
            except StopIteration:
                break
        return [number for batch in held for number in ids_of(place.host(batch))]


@pytest.mark.parametrize("consumers", [2, 4])
def test_threads_with_streams_of_their_own_share_all_uses(place, consumers):
    count = sizes(place)
    with make("cuda", factor=3, window=99) as buffer:
        producer = Worker(feed, buffer, count)
        workers = [
            Worker(consume, place, buffer, place.stream()) for _ in range(consumers)
        ]
        uses = Counter(number for worker in workers for number in worker.result())
        producer.result()
        assert uses == dict.fromkeys(range(count), 3)


def test_buffers_side_by_side_each_keep_their_order(place):
    count = sizes(place) // 2
    seeds = (1, 2, 3)
    stream = place.stream()
    buffers = [make("cuda", seed=seed) for seed in seeds]
    producers = [Worker(feed, buffer, count) for buffer in buffers]
    served = []
    with stream:
        # Several are drawn before one is looked at.
        for batches in zip_longest(*buffers):
            place.spin(stream, 0.2)
            served.append([ids_of(place.host(batch)) for batch in batches])
    for index, seed in enumerate(seeds):
        assert [row[index] for row in served] == expected(count, seed=seed)
    for producer, buffer in zip(producers, buffers, strict=True):
        producer.result()
        buffer.__exit__(None, None, None)


def test_batches_are_the_callers(place):
    """They stay as they are while others are drawn, and may be changed."""
    stream = place.stream()
    with make("cuda") as buffer, stream:
        producer = Worker(feed, buffer, 300)
        batches = list(buffer)
        for leaf in (batches[0]["id"], batches[0]["body"][0]):
            leaf[...] = 0
        ids = [ids_of(place.host(batch)) for batch in batches[1:]]
        producer.result()
    assert ids == expected(300)[1:]


def test_nothing_is_put_where_a_context_was_left(place):
    with make("cuda") as buffer:
        buffer.put_batch(stack(range(96)), timeout=WAIT_S)
    with pytest.raises(echobuf.ClosedError):
        buffer.next_batch(timeout=WAIT_S)
