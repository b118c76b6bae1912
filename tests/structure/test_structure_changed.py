"""Trees that change, or run code of others, while they are taken apart natively."""

import gc

import numpy as np
import pytest

import echobuf
from echobuf import _core
from echobuf.loader_buffer import LoaderBuffer
from helpers import WAIT_S, Worker

pytestmark = pytest.mark.contract


class Key:
    """A key whose comparisons run code."""

    run = None

    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return 1

    def __lt__(self, other):
        return self.name < other.name

    def __eq__(self, other):
        if Key.run is not None:
            Key.run()
        return self.name == other.name


def with_keys():
    """A tree whose keys are none of another such tree's, but equal to them."""
    inner = {Key("a"): np.int64(1), Key("b"): np.int64(2)}
    return [inner, [np.int64(3)], np.int64(4)]


def put_while(change):
    """Put a tree that `change` changes in the middle of the put."""
    with echobuf.EchoBuffer(with_keys(), batch_size=1, window=1, factor=1) as buffer:
        item = with_keys()

        def run():
            Key.run = None
            change(item)
            gc.collect()

        Key.run = run
        try:
            buffer.put(item)
        finally:
            Key.run = None


@pytest.mark.parametrize(
    "change",
    [
        lambda item: item.clear(),
        lambda item: item[0].clear(),
        lambda item: item[1].clear(),
        lambda item: item.__setitem__(1, None),
    ],
    ids=["all", "its dict", "a list", "a part"],
)
def test_a_tree_that_a_key_changes_is_refused(change):
    with pytest.raises(echobuf.SpecError, match="another structure"):
        put_while(change)


@pytest.mark.parametrize("kind", [KeyError, RuntimeError, KeyboardInterrupt])
def test_an_error_of_a_key_gets_through(kind):
    def change(_):
        raise kind("of a key")

    with pytest.raises(kind, match="of a key"):
        put_while(change)


@pytest.mark.parametrize("kind", [ValueError, TypeError])
def test_a_key_that_cannot_be_compared_is_of_another_structure(kind):
    def fail():
        raise kind("of a key")

    with LoaderBuffer(with_keys(), batch_size=1, window=1, factor=1) as buffer:
        item = with_keys()
        Key.run = fail
        try:
            outcome = buffer.core.put_tree(item, False, 0)
            assert outcome == (_core.MISMATCH, 0)
        finally:
            Key.run = None


def test_a_tree_that_another_thread_changes():
    spec = {"a": np.zeros(50, "i8"), "b": [np.int64(0), np.int64(0)]}
    item = {**spec, "b": list(spec["b"])}
    ended = []

    def change():
        number = 0
        while not ended:
            number += 1
            item["b"].clear()
            item["b"].extend([np.int64(number), np.int64(number)])
            item["a"] = np.full(50, number)
            item["b"] = [np.int64(number), np.int64(number)]

    with echobuf.EchoBuffer(spec, batch_size=1, window=1, factor=1) as buffer:
        worker = Worker(change)
        for _ in range(3000):
            try:
                buffer.put(item)
            except echobuf.SpecError:
                continue
            batch = buffer.next_batch(timeout=WAIT_S)
            assert len(set(batch["a"][0].tolist())) == 1
        ended.append(True)
        worker.result()
