"""Infos of many producers agree with books of uses, and stay as they were."""

import copy
import pickle
import threading
from collections import Counter

import numpy as np
import pytest

import echobuf
from equal_arrays import assert_equal
from helpers import WAIT_S, Worker

pytestmark = pytest.mark.contract

SPEC = {"id": echobuf.Field((), np.int64), "body": echobuf.Field((5,), np.float32)}


def stacked(ids):
    ids = np.asarray(ids, np.int64)
    return {"id": ids, "body": np.repeat(ids[:, None], 5, 1).astype(np.float32)}


def version_of(number):
    return 7 * number + 3


class Books:
    """Uses of each example, and the index that it came with first."""

    def __init__(self):
        self.uses = Counter()
        self.index_of = {}

    def enter(self, batch, info):
        columns = zip(
            batch["id"].tolist(), *(leaf.tolist() for leaf in info), strict=True
        )
        for number, index, echo, version in columns:
            assert self.index_of.setdefault(number, index) == index
            assert (echo, version) == (self.uses[number], version_of(number))
            self.uses[number] += 1


@pytest.mark.parametrize(("factor", "prefetch"), [(3, 2), (2.5, 0), ("auto", 1)])
def test_infos_of_several_producers_agree_with_books_of_uses(factor, prefetch):
    producers, each = 4, 30
    buffer = echobuf.EchoBuffer(
        SPEC,
        batch_size=6,
        window=36,
        factor=factor,
        prefetch=prefetch,
        with_info=True,
    )
    for _ in range(2):
        ended = threading.Barrier(producers, action=buffer.close)

        def produce(first, ended=ended):
            for number in range(first, producers * each, producers):
                batch = stacked([number])
                if number % 3:
                    one = {name: leaf[0] for name, leaf in batch.items()}
                    buffer.put(one, WAIT_S, version_of(number))
                else:
                    versions = np.array([version_of(number)])
                    buffer.put_batch(batch, WAIT_S, versions)
                    versions[:] = 0  # the caller's again
            ended.wait(WAIT_S)

        workers = [Worker(produce, first) for first in range(producers)]
        books = Books()
        for batch, info in buffer:
            books.enter(batch, info)
        for worker in workers:
            worker.result()
        assert sorted(books.index_of.values()) == list(range(producers * each))
        for first in range(producers):  # a producer's own examples keep their order
            own = [books.index_of[n] for n in range(first, producers * each, producers)]
            assert own == sorted(own)
        if factor != "auto":
            low, high = int(factor), int(np.ceil(factor))
            assert set(books.uses.values()) <= {low, high}
        buffer.reset()


def test_a_put_batch_that_a_timeout_cut_goes_on_with_its_versions():
    n = 75
    versions = np.array([version_of(number) for number in range(n)])
    buffer = echobuf.EchoBuffer(SPEC, batch_size=4, window=16, factor=2, with_info=True)
    with pytest.raises(TimeoutError) as error:
        buffer.put_batch(stacked(range(n)), 0.01, versions)
    put = error.value.accepted
    assert 0 < put < n

    def go_on():
        buffer.put_batch(stacked(range(put, n)), WAIT_S, versions[put:])
        buffer.close()

    worker, books = Worker(go_on), Books()
    for batch, info in buffer:
        books.enter(batch, info)
    worker.result()
    assert books.uses == dict.fromkeys(range(n), 2)
    assert books.index_of == {number: number for number in range(n)}


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickle.loads])
def test_infos_stay_as_they_were_while_the_buffer_goes_on(again):
    n = 60
    buffer = echobuf.EchoBuffer(
        SPEC, batch_size=4, window=16, factor=3, with_info=True, prefetch=1
    )

    def produce():
        versions = [version_of(number) for number in range(n)]
        buffer.put_batch(stacked(range(n)), WAIT_S, versions)
        buffer.close()

    worker, books, held = Worker(produce), Books(), []
    for step, (batch, info) in enumerate(buffer):
        books.enter(batch, info)
        if step % 2:
            held.append((info, [leaf.copy() for leaf in info]))
        else:  # the caller's: no later batch sees it
            for leaf in info:
                leaf[...] = 0
    worker.result()
    assert books.uses == dict.fromkeys(range(n), 3)
    assert len(held) == 3 * n // 4 // 2
    buffer.reset()
    for info, then in held:
        other = again(pickle.dumps(info)) if again is pickle.loads else again(info)
        assert type(other) is echobuf.BatchInfo
        for leaf, now, before in zip(info, other, then, strict=True):
            assert leaf.dtype == now.dtype
            assert_equal(leaf, before)
            assert_equal(now, before)
