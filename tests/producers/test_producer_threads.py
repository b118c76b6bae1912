"""Host and device producers side by side: each example exactly as often as promised."""

import random
from collections import Counter

import numpy as np
import pytest
from device_examples import on_device, rows, some

from echobuf.testing import simulated_cuda
from helpers import WAIT_S, Worker, ids_of, make, stack

EACH = 60


class Producer:
    """Puts its own ids in random parts, and overwrites what it has put."""

    def __init__(self, simulation, first, seed, kind):
        self._simulation = simulation
        self._first = first
        self._dice = random.Random(seed)
        self._kind = kind

    def __call__(self, buffer):
        with self._simulation.stream():
            at = 0
            while at < EACH:
                n = min(self._dice.choice([0, 0, 1, 3, 17]), EACH - at)
                ids = np.arange(at, at + max(n, 1)) + self._first
                tree = stack(ids)
                if n == 0:
                    tree = rows(tree, 0)
                moved = self._moved(tree)
                if n == 0:
                    buffer.put(moved, timeout=WAIT_S)
                else:
                    buffer.put_batch(moved, timeout=WAIT_S)
                self._overwrite(moved)
                at += len(ids)

    def _moved(self, tree):
        if self._kind == "device":
            return on_device(self._simulation, tree)
        if self._kind == "mixed":
            return some(tree, self._dice, self._simulation.array)
        return tree

    def _overwrite(self, tree):
        """As the owner of a reused array does, or one that frees it."""
        for leaf in (tree["id"], *tree["body"]):
            if isinstance(leaf, np.ndarray) and leaf.ndim:
                leaf[...] = 0
            elif hasattr(leaf, "copy_from"):
                leaf.copy_from(0)
                if self._dice.random() < 0.5:
                    leaf.free()


def uses(simulation, kinds, seed, consumers=1, **kwargs):
    """Return how often each id was served."""
    served = []

    def consume():
        with simulation.stream():
            served.extend(number for batch in buffer for number in ids_of(batch))

    with make(device="cuda", seed=seed, **kwargs) as buffer:
        producers = [
            Worker(Producer(simulation, i * EACH, seed * 10 + i, kind), buffer)
            for i, kind in enumerate(kinds)
        ]
        drawing = [Worker(consume) for _ in range(consumers)]
        for producer in producers:
            producer.result()
        buffer.close()
        for consumer in drawing:
            consumer.result()
    return Counter(served)


@pytest.mark.parametrize("seed", range(6))
def test_two_device_and_two_host_producers(seed):
    with simulated_cuda(seed) as simulation:
        kinds = ["device", "host", "device", "host"]
        served = uses(simulation, kinds, seed)
    assert served == dict.fromkeys(range(4 * EACH), 2)


@pytest.mark.parametrize("seed", range(3))
def test_examples_of_both_in_one(seed):
    with simulated_cuda(seed) as simulation:
        served = uses(simulation, ["mixed", "mixed", "host"], seed, factor=3)
    assert served == dict.fromkeys(range(3 * EACH), 3)


@pytest.mark.parametrize("seed", range(3))
def test_several_consumers(seed):
    with simulated_cuda(seed) as simulation:
        served = uses(simulation, ["device", "mixed", "host"], seed, 2, factor=1)
    assert served == dict.fromkeys(range(3 * EACH), 1)


@pytest.mark.parametrize("factor", ["auto", 2.5])
def test_other_factors(factor):
    with simulated_cuda(7) as simulation:
        served = uses(simulation, ["device", "host", "mixed"], 7, factor=factor)
    assert sorted(served) == list(range(3 * EACH))
    assert max(served.values()) <= (8 if factor == "auto" else 3)


@pytest.mark.parametrize("window", [4, 5, 50])
def test_windows_of_other_sizes(window):
    with simulated_cuda(9) as simulation:
        served = uses(simulation, ["device", "host"], 9, window=window)
    assert served == dict.fromkeys(range(2 * EACH), 2)
