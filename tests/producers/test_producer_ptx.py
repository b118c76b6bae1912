"""The scatter as NVRTC compiles it, on the PTX machine: as the host's puts."""

import random

import numpy as np
import pytest
from device_examples import (
    Interface,
    bits,
    laid_out,
    on_device,
    random_batch,
    random_spec,
    served,
    some,
    values,
)
from test_producer_layouts import VIEWS, broadcast, through
from test_producer_order import producer, random_options, sizes

from echobuf import Field
from echobuf.testing import simulated_cuda
from helpers import WAIT_S

N = 23
ITEMS = np.arange(2 * 3 * 4 * 5, dtype=np.int32).reshape(2, 3, 4, 5)


@pytest.mark.parametrize("seed", range(12))
def test_any_spec_is_drawn_as_from_the_host(seed):
    dice = random.Random(seed)
    spec, options = random_spec(dice), random_options(dice)
    batch, turns = random_batch(spec, N, seed), list(sizes(dice, N))
    expected = served(spec, options, producer(batch, turns, lambda tree: tree), "cpu")
    with simulated_cuda(seed, "ptx") as simulation:
        for move in (
            lambda tree: on_device(simulation, tree),
            lambda tree: some(tree, dice, simulation.array),
            lambda tree: some(tree, dice, lambda x: laid_out(simulation, x, dice)),
        ):
            got = served(spec, options, producer(batch, turns, move), "cuda")
            assert got == expected


@pytest.fixture(scope="module")
def on():
    with simulated_cuda(3, "ptx") as simulation:
        yield simulation


@pytest.mark.parametrize("view", VIEWS)
def test_views(on, view):
    expected = VIEWS[view](ITEMS)
    field = Field(expected.shape, expected.dtype)
    got = through(VIEWS[view](on.array(ITEMS)), field)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("seed", range(6))
def test_random_views(on, seed):
    dice = random.Random(seed)
    for _ in range(4):
        shape = [dice.randint(1, 6) for _ in range(dice.randint(1, 5))]
        dtype = dice.choice(["u1", "i2", "f4", "i8", "c16"])
        expected = values(Field(shape, dtype), (), np.random.default_rng(seed))
        parts = tuple(
            slice(dice.choice([None, 1]), None, dice.choice([1, 1, 2, -1, -2]))
            for _ in shape
        )
        leaf, expected = on.array(expected)[parts], expected[parts]
        if dice.random() < 0.5:
            leaf, expected = leaf.T, expected.T
        got = through(leaf, Field(expected.shape, expected.dtype))
        assert bits(got) == bits(expected)


def test_broadcast_and_misaligned_leaves(on):
    row = np.arange(5, dtype=np.int16)
    got = through(broadcast(on.array(row), (3, 5)), Field((3, 5), np.int16))
    np.testing.assert_array_equal(got, np.broadcast_to(row, (3, 5)))
    content = np.random.default_rng(1).integers(0, 256, 200, np.uint8)
    array = on.array(content)
    address = array.__cuda_array_interface__["data"][0]
    for dtype in ("<u2", "<f4", "<i8", "<c16"):
        for offset in (1, 2, 3, 4, 7, 8):
            expected = np.ndarray((3, 3), dtype, content, offset)
            leaf = Interface(
                array, shape=(3, 3), typestr=dtype, data=(address + offset, False)
            )
            assert bits(through(leaf, Field((3, 3), dtype))) == bits(expected)


@pytest.mark.parametrize("size", [1, 15, 16, 17, 1000, 4096, 70_001])
@pytest.mark.parametrize("n", [1, 3])
def test_records_of_any_size(on, size, n):
    batch = np.random.default_rng(size).integers(0, 256, (n, size), np.uint8)
    got = through(on.array(batch), Field((size,), np.uint8), n)
    assert sorted(row.tobytes() for row in got) == sorted(
        row.tobytes() for row in batch
    )


def test_ragged_leaves(on):
    spec = Field((None, 3), np.uint8)
    options = {"window": 8, "batch_size": 3, "factor": 2, "payload_bytes": 900}

    def put_with(move):
        def put(buffer):
            for i in range(20):
                leaf = np.full((i * 7 % 11, 3), i, np.uint8)
                buffer.put(move(leaf), timeout=WAIT_S)

        return put

    expected = served(spec, options, put_with(np.asarray), "cpu")
    assert served(spec, options, put_with(on.array), "cuda") == expected
