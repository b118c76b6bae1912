"""Batches that are dropped late, in other threads, or after their buffer."""

import gc
import queue

import pytest

import echobuf
from helpers import Worker
from programs import run
from records import Records

KWARGS = {"window": 32, "batch_size": 8, "factor": 2}
RECORDS = Records(5000)


def put_many(buffer: echobuf.EchoBuffer) -> None:
    batch = RECORDS.stacked(list(range(400)))
    for _ in range(5):
        buffer.put_batch(batch, timeout=60)
    buffer.close()


@pytest.mark.parametrize("prefetch", [0, 3])
def test_batches_stay_as_they_are_until_another_thread_drops_them(prefetch):
    to_drop: queue.Queue[object] = queue.Queue()

    def drop() -> None:
        while (batch := to_drop.get()) is not None:
            RECORDS.ids(batch)
            del batch

    with echobuf.EchoBuffer(RECORDS.spec(), prefetch=prefetch, **KWARGS) as buffer:
        dropper = Worker(drop)
        producer = Worker(put_many, buffer)
        held = []
        before = buffer.stats().bytes_host
        for number, batch in enumerate(buffer):
            held.append((batch, RECORDS.ids(batch)))
            del batch
            if number % 30 == 29:
                for _ in range(20):  # in another order than they came in
                    to_drop.put(held.pop(number % len(held))[0])
        producer.result()
        assert [RECORDS.ids(batch) for batch, _ in held] == [ids for _, ids in held]
        to_drop.put(None)
        dropper.result()
        batch_bytes = sum(leaf.nbytes for leaf in held[0][0]["body"])
        assert len(held) > 100
        held.clear()
        # Two idle blocks are kept, and as many as a thread makes ahead.
        kept = buffer.stats().bytes_host - before
        assert kept < (3 + prefetch) * (batch_bytes + 4096)


@pytest.mark.parametrize("prefetch", [0, 3])
@pytest.mark.parametrize("end", ["close", "exit", "delete", "reset"])
def test_batches_outlive_what_they_came_from(prefetch, end):
    buffer = echobuf.EchoBuffer(RECORDS.spec(), prefetch=prefetch, **KWARGS)
    buffer.put_batch(RECORDS.stacked(list(range(32))))
    held = [buffer.next_batch(timeout=60) for _ in range(4)]
    before = [RECORDS.ids(batch) for batch in held]
    if end == "close":
        buffer.close()
    elif end == "exit":
        buffer.__exit__(None, None, None)
    elif end == "reset":
        buffer.reset()
        buffer.put_batch(RECORDS.stacked(list(range(100, 132))))
        buffer.next_batch(timeout=60)
    else:
        del buffer
        gc.collect()
    assert [RECORDS.ids(batch) for batch in held] == before
    words = held[2]["body"][0]  # one leaf alone keeps the memory of all
    copy = words.copy()
    del held
    again = [bytearray(copy.nbytes) for _ in range(4)]  # takes freed memory, if any
    assert (words == copy).all()
    del again


@pytest.mark.parametrize("keeper", ["sys", "builtins", "threading"])
def test_batches_that_the_exit_of_the_interpreter_drops(keeper):
    out = run(f"""
        import {keeper} as keeper
        import numpy as np
        import echobuf
        buffer = echobuf.EchoBuffer(
            echobuf.Field((1000,), float), window=8, batch_size=4, prefetch=2
        )
        buffer.put_batch(np.ones((8, 1000)))
        keeper.held = [buffer.next_batch() for _ in range(2)]
        keeper.held.append(keeper.held)  # a cycle
        keeper.buffer = buffer
        print(keeper.held[0].sum())
        """)
    assert out == "4000.0\n"
