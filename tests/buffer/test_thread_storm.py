"""One buffer, eight threads, every call: nothing is torn, and it still works after.

The same with more of everything: tests/slow/test_thread_storms.py.
"""

import queue
import threading

import numpy as np
import pytest

import echobuf
from helpers import WAIT_S, Worker, drain, example, ids_of, make, stack
from thread_storm import KINDS, THREADS, Storm, serve_exactly

# The others are optree's, for a dict or a list that changes while it looks at it.
REFUSED = (echobuf.SpecError, LookupError, RuntimeError)

every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_a_buffer_survives_every_call_from_every_thread(kind):
    storm = Storm(kind, seed=7, calls=40, batches=60)
    with storm.buffer:
        storm.run()
        uses = serve_exactly(storm, 30)
    if kind == "auto":
        assert min(uses) >= 1
    else:
        assert uses == [2] * 30


def test_leaving_the_context_ends_the_calls_of_all_threads():
    buffer = make()
    start = threading.Barrier(THREADS + 1)

    def call(thread):
        start.wait(WAIT_S)
        try:
            while True:
                if thread % 2:
                    buffer.put_batch(stack(range(10)))
                else:
                    buffer.next_batch()
        except echobuf.ClosedError as error:
            return str(error)

    threads = [Worker(call, i) for i in range(THREADS)]
    with buffer:
        start.wait(WAIT_S)
    for thread in threads:
        assert "context of this buffer was left" in thread.result()


def test_all_threads_that_leave_the_context_at_once_free_the_memory_once():
    buffer = make()
    start = threading.Barrier(THREADS)

    def leave():
        start.wait(WAIT_S)
        buffer.__exit__()
        with pytest.raises(echobuf.ClosedError):
            buffer.stats()

    for thread in [Worker(leave) for _ in range(THREADS)]:
        thread.result()


def test_batches_stay_whole_until_other_threads_drop_them():
    n = 200
    held = queue.Queue()
    with make(factor=3, window=24) as buffer:

        def draw():
            for batch in buffer:
                held.put(batch)

        def drop():
            ids = []
            while (batch := held.get(timeout=WAIT_S)) is not None:
                ids += ids_of(batch)
                del batch
            return ids

        drawing = [Worker(draw) for _ in range(4)]
        dropping = [Worker(drop) for _ in range(3)]
        feeding = [
            Worker(buffer.put_batch, stack(range(i, n, 4)), WAIT_S) for i in range(4)
        ]
        for feeder in feeding:
            feeder.result()
        buffer.close()
        for drawer in drawing:
            drawer.result()
        for _ in dropping:
            held.put(None)
        served = [number for dropper in dropping for number in dropper.result()]
    assert sorted(served) == sorted([*range(n)] * 3)


def test_a_tree_that_another_thread_changes_is_put_whole_or_refused():
    """Its leaves stay alive, and none comes from a tree of another structure."""
    spec = [echobuf.Field((2,), np.int64), {"x": echobuf.Field((2,), np.int64)}]
    with echobuf.EchoBuffer(spec, batch_size=4, window=8, factor=1) as buffer:
        tree = [np.zeros(2, np.int64), {"x": np.zeros(2, np.int64)}]
        over = threading.Event()

        def change():
            for i in range(1, 4000):
                tree[0] = np.full(2, i)
                tree[1]["x"] = np.full(2, i)
                last = tree.pop()
                tree.append(last)
                tree[1].pop("x")
                tree[1]["x"] = np.full(2, i)
            over.set()

        def put():
            refused = count = 0
            while not over.is_set() or count == 0:
                try:
                    buffer.put(tree, timeout=WAIT_S)
                    count += 1
                except REFUSED:
                    refused += 1
            return count

        def draw():
            rows = 0
            while True:
                try:
                    first, rest = buffer.next_batch(timeout=WAIT_S)
                except StopIteration:
                    return rows
                for leaf in (first, rest["x"]):
                    assert (leaf[:, 0] == leaf[:, 1]).all(), "a leaf is torn"
                rows += len(first)

        changing, drawing = Worker(change), Worker(draw)
        putting = [Worker(put) for _ in range(3)]
        changing.result()
        count = sum(thread.result() for thread in putting)
        buffer.close()
        assert drawing.result() == count


def test_buffers_made_at_once_are_as_those_made_alone():
    """Specs, chains and layouts share nothing that a thread could see half-made."""

    def first_batches(seed):
        examples, kwargs = KINDS["augmented"]
        with echobuf.EchoBuffer(
            examples.spec,
            batch_size=4,
            window=12,
            seed=seed,
            transform=examples.transform,
            **kwargs,
        ) as buffer:
            buffer.put_batch(examples.many(range(12)))
            buffer.close()
            return [examples.check(batch) for batch in buffer]

    alone = [first_batches(seed) for seed in range(THREADS)]
    threads = [Worker(first_batches, seed) for seed in range(THREADS)]
    assert [thread.result() for thread in threads] == alone


def test_a_put_of_a_number_is_one_thread_s_alone():
    """Each thread's scalars enter as they are, though conversion is shared code."""
    n = 50
    spec = {"id": echobuf.Field((), np.int64), "half": echobuf.Field((), np.float32)}
    with echobuf.EchoBuffer(spec, batch_size=8, window=THREADS * n, factor=1) as buffer:

        def put(thread):
            for i in range(thread * n, thread * n + n):
                buffer.put({"id": i, "half": i / 2})

        for thread in [Worker(put, i) for i in range(THREADS)]:
            thread.result()
        buffer.close()
        seen = []
        for batch in buffer:
            assert (batch["half"] == batch["id"] / 2).all()
            seen += batch["id"].tolist()
    assert sorted(seen) == list(range(THREADS * n))


def test_examples_put_one_by_one_from_all_threads_are_all_served():
    n = 25
    with make(window=THREADS * n, factor=2) as buffer:

        def put(thread):
            for i in range(thread * n, thread * n + n):
                buffer.put(example(i), timeout=WAIT_S)

        for thread in [Worker(put, i) for i in range(THREADS)]:
            thread.result()
        buffer.close()
        served = [number for ids in drain(buffer) for number in ids]
    assert sorted(served) == sorted([*range(THREADS * n)] * 2)
