"""An upstream that dies half-way: what it had put stays whole, and others go on."""

import ctypes
import itertools
import random
import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest

import echobuf
from helpers import (
    SPEC,
    WAIT_S,
    Worker,
    drain,
    example,
    expected_batches,
    ids_of,
    stack,
    until,
)

KWARGS = {"window": 24, "batch_size": 6, "factor": 2, "seed": 4, "drop_last": False}


class BrokenError(Exception):
    pass


class RaisesWhenRead:
    """An array-like that fails while it is converted."""

    def __init__(self, leaf: np.ndarray) -> None:
        self.shape = leaf.shape

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise BrokenError


def broken(tree: dict[str, Any], at: int) -> dict[str, Any]:
    """The same, but the leaf `at` fails while it is converted."""
    leaves = [tree["id"], *tree["body"]]
    leaves[at] = RaisesWhenRead(leaves[at])
    return {"id": leaves[0], "body": tuple(leaves[1:])}


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_array_that_fails_to_convert_puts_nothing(at, prefetch):
    with echobuf.EchoBuffer(SPEC, prefetch=prefetch, **KWARGS) as buffer:

        def produce(ids: range) -> None:
            for number in ids:
                with pytest.raises(BrokenError):
                    buffer.put(broken(example(number), at))
                with pytest.raises(BrokenError):
                    buffer.put_batch(broken(stack([number] * 100), at))
                buffer.put(example(number), timeout=WAIT_S)

        producers = [Worker(produce, range(i * 100, i * 100 + 100)) for i in range(2)]
        drawn = Worker(lambda: list(drain(buffer)))
        for producer in producers:
            producer.result()
        buffer.close()
        uses = Counter(itertools.chain.from_iterable(drawn.result()))
    assert uses == dict.fromkeys(range(200), 2)


def kill(thread: threading.Thread) -> None:
    """Raises in the thread, at whatever bytecode it is."""
    ident = ctypes.c_ulong(thread.ident)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(BrokenError))


def put_for_ever(buffer: Any) -> None:
    for number in itertools.count():
        if number % 5:
            buffer.put(example(number))
        else:
            buffer.put_batch(stack([number]))


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_producer_killed_anywhere_leaves_whole_records(prefetch):
    chance = random.Random(prefetch)
    with echobuf.EchoBuffer(SPEC, prefetch=prefetch, **KWARGS) as buffer:
        for epoch in range(60):
            producer = Worker(put_for_ever, buffer)
            until(lambda: buffer.stats().fresh > 0)
            drawn = [next(drain(buffer)) for _ in range(chance.randrange(8))]
            kill(producer)
            while producer.is_alive():  # draws make room, where it waits for that
                drawn += draw_now(buffer)
            with pytest.raises(BrokenError):
                producer.result()
            buffer.close()
            fresh = buffer.stats().fresh
            drawn += drain(buffer)
            assert drawn == expected_batches(KWARGS, fresh, epoch)
            buffer.reset()


def draw_now(buffer: Any) -> list[list[int]]:
    """The next batch, if it comes soon."""
    try:
        return [ids_of(buffer.next_batch(timeout=0.01))]
    except TimeoutError:
        return []


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("last", [0, 1, 5, 30, 77])
def test_a_loaders_upstream_that_raises_ends_the_loop_with_its_error(
    batched, prefetch, last
):
    def upstream() -> Any:
        for number in range(last):
            yield stack([number] * 3) if batched else example(number)
        raise BrokenError

    arguments = {**KWARGS, "prefetch": prefetch, "batched": batched}
    loader = echobuf.EchoLoader(upstream(), **arguments)
    served: list[int] = []
    with pytest.raises(echobuf.UpstreamError) as raised:
        served.extend(itertools.chain.from_iterable(map(ids_of, loader)))
    assert isinstance(raised.value.__cause__, BrokenError)
    uses = Counter(served)
    assert set(uses) <= set(range(last))
    assert max(uses.values(), default=0) <= (6 if batched else 2)


def test_an_upstream_that_breaks_in_one_epoch_serves_the_next_whole():
    class Upstream:
        epoch = -1

        def __iter__(self) -> Any:
            self.epoch += 1
            for number in range(50):
                if self.epoch % 2 == 0 and number == 30:
                    raise BrokenError
                yield example(number)

    loader = echobuf.EchoLoader(Upstream(), **KWARGS)
    for epoch in range(10):
        if epoch % 2 == 0:
            with pytest.raises(echobuf.UpstreamError):
                list(loader)
        else:
            got = [ids_of(batch) for batch in loader]
            assert got == expected_batches(KWARGS, 50, epoch)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_failure_told_while_a_put_and_a_draw_wait(prefetch):
    kwargs = {**KWARGS, "batch_size": 24}
    with echobuf.EchoBuffer(SPEC, prefetch=prefetch, **kwargs) as buffer:
        for _ in range(20):
            drawn = Worker(buffer.next_batch)
            producer = Worker(buffer.put_batch, stack(range(7)))
            producer.result()
            error = BrokenError()
            buffer.fail(error)
            with pytest.raises(echobuf.UpstreamError) as raised:
                drawn.result()
            assert raised.value.__cause__ is error
            until(buffer.ready)
            buffer.reset()
