"""Device puts give the draws of host puts, bit for bit, for any spec."""

import math
import random

import optree
import pytest
from device_examples import (
    laid_out,
    on_device,
    random_batch,
    random_spec,
    rows,
    served,
    some,
)

from echobuf.testing import simulated_cuda
from helpers import WAIT_S, largest_batch
from schedule_reference import ratio

N = 41


def random_options(dice):
    factor = dice.choice([1, 2, 3, 1.5, 2.5])
    window = dice.randint(math.ceil(factor), 14)
    most = largest_batch(window, ratio(factor))
    return {
        "factor": factor,
        "window": window,
        "batch_size": dice.randint(1, most),
        "seed": dice.randrange(1000),
        "prefetch": dice.choice([0, 2]),
        "drop_last": dice.random() < 0.3,
    }


def sizes(dice, n):
    """Sizes of puts, which add up to n; 0 stands for a single `put`."""
    left = n
    while left > 0:
        size = min(dice.choice([0, 0, 1, 2, 5, 20]), left)
        yield size
        left -= max(size, 1)


def producer(batch, turns, move):
    """Puts the examples in turns of sizes; `move` takes each to where it is put from"""

    def put(buffer):
        at = 0
        for size in turns:
            if size:
                part = rows(batch, slice(at, at + size))
                buffer.put_batch(move(part), timeout=WAIT_S)
            else:
                buffer.put(move(rows(batch, at)), timeout=WAIT_S)
            at += max(size, 1)

    return put


@pytest.mark.parametrize("seed", range(25))
def test_any_spec_is_drawn_as_from_the_host(seed):
    dice = random.Random(seed)
    spec, options = random_spec(dice), random_options(dice)
    batch, turns = random_batch(spec, N, seed), list(sizes(dice, N))
    expected = served(spec, options, producer(batch, turns, lambda tree: tree), "cpu")
    with simulated_cuda(seed) as simulation:
        for move in (
            lambda tree: on_device(simulation, tree),
            lambda tree: some(tree, dice, simulation.array),
            lambda tree: some(tree, dice, lambda x: laid_out(simulation, x, dice)),
            lambda tree: dice.choice([tree, on_device(simulation, tree)]),
        ):
            got = served(spec, options, producer(batch, turns, move), "cuda")
            assert got == expected


@pytest.mark.parametrize("fields", [1, 31, 32, 33, 70])
def test_any_number_of_fields(fields):
    dice = random.Random(fields)
    spec = {f"{i:03}": random_spec(dice) for i in range(fields)}
    leaves = optree.tree_leaves(spec)[:fields]
    batch = random_batch(leaves, 9, fields)
    options = {"batch_size": 2, "window": 4, "factor": 2}
    turns = [0, 3, 0, 4]
    expected = served(leaves, options, producer(batch, turns, lambda tree: tree), "cpu")
    with simulated_cuda(fields) as simulation:

        def move(tree):
            return on_device(simulation, tree)

        assert served(leaves, options, producer(batch, turns, move), "cuda") == expected


@pytest.mark.parametrize("seed", range(6))
def test_whole_batches_of_any_length(seed):
    """unit="batch": what is put is served whole, and the last may be shorter."""
    dice = random.Random(seed)
    spec = optree.tree_map(
        lambda field: type(field)((5, *field.shape), field.dtype), random_spec(dice)
    )
    lengths = [dice.choice([5, 5, 1, 3]) for _ in range(17)]
    parts = [rows(random_batch(spec, 1, i), 0) for i in range(17)]
    parts = [rows(part, slice(n)) for part, n in zip(parts, lengths, strict=True)]
    options = {"unit": "batch", "window": 4, "factor": dice.choice([1, 2, 1.5])}

    def put_with(move):
        def put(buffer):
            for part in parts:
                buffer.put(move(part), timeout=WAIT_S)

        return put

    expected = served(spec, options, put_with(lambda tree: tree), "cpu")
    with simulated_cuda(seed) as simulation:
        moved = put_with(lambda tree: on_device(simulation, tree))
        assert served(spec, options, moved, "cuda") == expected


def test_whole_batches_stacked():
    spec = random_spec(random.Random(3))
    whole = optree.tree_map(
        lambda field: type(field)((3, *field.shape), field.dtype), spec
    )
    batch = random_batch(whole, 7, 1)
    options = {"unit": "batch", "window": 2, "factor": 2}

    def put_with(move):
        return lambda buffer: buffer.put_batch(move(batch), timeout=WAIT_S)

    expected = served(whole, options, put_with(lambda tree: tree), "cpu")
    with simulated_cuda(1) as simulation:
        moved = put_with(lambda tree: on_device(simulation, tree))
        assert served(whole, options, moved, "cuda") == expected


@pytest.mark.parametrize("n", [0, 1, 8, 12, 13, 100])
def test_a_batch_of_any_size_is_put_at_once(n):
    """Also none, and more than the window holds, with a consumer beside."""
    spec = random_spec(random.Random(8))
    batch = random_batch(spec, n, n)
    options = {"batch_size": 4, "window": 8, "factor": 2, "seed": n}

    def put_with(move):
        return lambda buffer: buffer.put_batch(move(batch), timeout=WAIT_S)

    expected = served(spec, options, put_with(lambda tree: tree), "cpu")
    with simulated_cuda(n) as simulation:
        moved = put_with(lambda tree: on_device(simulation, tree))
        assert served(spec, options, moved, "cuda") == expected
