"""Upstreams that yield the same memory again and again, filled anew for each item."""

import time

import numpy as np
import pytest

import echobuf
import echobuf.serve

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

COUNT = 40


class Refilled:
    """A reader with one buffer, of which it yields what `view` makes."""

    def __init__(self, view):
        self._view = view

    def __iter__(self):
        buffer = np.zeros(8, np.uint8)
        for number in range(COUNT):
            buffer[:] = number
            tokens = self._view(buffer, 4 + number % 2)
            yield {"tokens": tokens, "lazy": Lazy(buffer), "label": number}


class Lazy:
    """A view that is no array, as images of Pillow are none."""

    def __init__(self, array):
        self._array = array

    def __array__(self, dtype=None, copy=None):
        return self._array


def as_tensor(buffer, length):
    torch = pytest.importorskip("torch")
    return torch.from_numpy(buffer)[:length]


VIEWS = {
    "array": lambda buffer, length: buffer[:length],
    "rows": lambda buffer, length: buffer[:, None][:length],
    "memoryview": lambda buffer, length: memoryview(buffer)[:length],
    "tensor": as_tensor,
}


def served(upstream, **arguments):
    """The labels of what is served, each of whose tokens must be its own."""
    arguments = {"batch_size": 4, "window": 16, "factor": 2, **arguments}
    labels = []
    for batch in echobuf.EchoLoader(upstream, **arguments):
        tokens = batch["tokens"]
        rows = tokens.to_list() if isinstance(tokens, echobuf.Ragged) else tokens
        for row, label in zip(rows, batch["label"].tolist(), strict=True):
            assert (row == label).all()
        assert (batch["lazy"] == batch["label"][:, None]).all()
        labels += batch["label"].tolist()
    return sorted(labels)


@pytest.mark.parametrize("view", VIEWS)
def test_items_that_are_looked_at_are_copied(view):
    upstream = Refilled(VIEWS[view])
    assert served(upstream, payload_bytes=4000) == sorted(2 * [*range(COUNT)])


def test_items_of_one_shape_are_not_kept():
    upstream = Refilled(lambda buffer, length: buffer[:4])
    assert served(upstream) == sorted(2 * [*range(COUNT)])


def test_analyze_keeps_copies():
    seen = []

    def step(batch):
        time.sleep(0.002)
        seen.extend((batch["tokens"] == batch["label"][:, None]).all(axis=1))

    upstream = Refilled(lambda buffer, length: buffer[:4])
    echobuf.analyze(upstream, step, batch_size=4, seconds=0.2)
    assert all(seen)


def test_a_server_looks_at_copies():
    upstream = Refilled(VIEWS["array"])
    arguments = {"window": 16, "payload_bytes": 4000}
    with echobuf.serve.Server(upstream, "refilled", **arguments):
        attached = echobuf.serve.attach("refilled")
        labels = served(attached, payload_bytes=4000)
        attached.close()
    assert labels == sorted(2 * [*range(COUNT)])
