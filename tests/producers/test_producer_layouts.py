"""Leaves of any layout are copied right, and by each protocol."""

import random

import ml_dtypes
import numpy as np
import pytest
from device_examples import DTYPES, Capsule, Interface, bits, values

import echobuf
from echobuf import Field
from echobuf.testing import simulated_cuda
from helpers import WAIT_S

ITEMS = np.arange(2 * 3 * 4 * 5, dtype=np.int32).reshape(2, 3, 4, 5)


@pytest.fixture
def on():
    with simulated_cuda(3) as simulation:
        yield simulation


def through(leaf, field, n=None):
    """Return what a buffer makes of a leaf: an example, or n of them stacked."""
    count = 1 if n is None else n
    with echobuf.EchoBuffer(
        field, batch_size=count, window=count, factor=1, device="cuda"
    ) as buffer:
        if n is None:
            buffer.put(leaf)
        else:
            buffer.put_batch(leaf)
        buffer.close()
        batch = buffer.next_batch(timeout=WAIT_S)
    return batch[0] if n is None else batch


def check(leaf, expected, field=None):
    """Compares an example, and a batch of it."""
    field = field or Field(expected.shape, expected.dtype)
    np.testing.assert_array_equal(through(leaf, field), expected)


VIEWS = {
    "whole": lambda a: a,
    "transposed": lambda a: a.T,
    "backwards": lambda a: a[::-1],
    "all backwards": lambda a: a[::-1, ::-1, ::-1, ::-1],
    "last axis backwards": lambda a: a[..., ::-1],
    "every other": lambda a: a[:, ::2],
    "every other item": lambda a: a[..., ::2],
    "part": lambda a: a[1:, 1:, 1:, 1:],
    "one of an axis": lambda a: a[:, 1],
    "more axes": lambda a: a[:, None, :, None, :, None, :, None],
    "mixed": lambda a: a.T[::-1, 1:, ::-2],
    "item": lambda a: a[1, 2, 3, 4],
    "nothing": lambda a: a[:, 3:],
}


@pytest.mark.parametrize("view", VIEWS)
def test_strided_examples(on, view):
    check(VIEWS[view](on.array(ITEMS)), VIEWS[view](ITEMS))


@pytest.mark.parametrize("view", [view for view in VIEWS if view != "item"])
def test_strided_batches(on, view):
    """The records of one `put_batch`, compared as sets: a pass shuffles them."""
    expected = VIEWS[view](ITEMS)
    leaf = VIEWS[view](on.array(ITEMS))
    field = Field(expected.shape[1:], expected.dtype)
    got = through(leaf, field, len(expected))
    assert sorted(row.tobytes() for row in got) == sorted(
        row.tobytes() for row in expected
    )


def broadcast(array, shape):
    """Return views of NumPy's rules for a shape: strides of 0."""
    like = np.broadcast_to(np.empty(array.shape, array.dtype), shape)
    return Interface(array, shape=shape, strides=like.strides)


def test_broadcast_leaves(on):
    row = np.arange(5, dtype=np.int16)
    array = on.array(row)
    check(broadcast(array, (3, 5)), np.broadcast_to(row, (3, 5)))
    check(broadcast(array, (2, 3, 5)), np.broadcast_to(row, (2, 3, 5)))
    column = on.array(row[:, None])
    check(broadcast(column, (5, 4)), np.broadcast_to(row[:, None], (5, 4)))
    one = on.array(np.float64(2.5))
    check(broadcast(one, (4, 3)), np.full((4, 3), 2.5))
    same = through(broadcast(array, (6, 5)), Field((5,), np.int16), 6)
    np.testing.assert_array_equal(same, np.broadcast_to(row, (6, 5)))


@pytest.mark.parametrize("axes", [8, 16, 32])
def test_many_axes(on, axes):
    shape = [1] * axes
    shape[0], shape[axes // 2], shape[-1] = 2, 3, 2
    expected = np.arange(12, dtype=np.int64).reshape(shape)
    array = on.array(expected)
    check(array, expected)
    check(array.T, expected.T)
    check(array[..., ::-1], expected[..., ::-1])


def test_many_axes_that_cannot_be_joined(on):
    whole = np.arange(3**7, dtype=np.int16).reshape((3,) * 7)
    view = (slice(None, None, 2),) * 7
    check(on.array(whole)[view], whole[view])
    check(on.array(whole)[view].T, whole[view].T)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("protocol", [lambda a: a, Capsule, Interface])
def test_dtypes_by_each_protocol(on, dtype, protocol):
    expected = values(Field((4, 3), dtype), (), np.random.default_rng(1))
    array = on.array(expected)
    if not hasattr(array, "__cuda_array_interface__"):  # no typestr means it
        protocol = Capsule
    field = Field((4, 3), dtype)
    assert bits(through(protocol(array), field)) == bits(expected)
    assert bits(through(protocol(array.T), Field((3, 4), dtype))) == bits(expected.T)
    assert bits(through(protocol(array[1:, 2]), Field((3,), dtype))) == bits(
        expected[1:, 2]
    )


@pytest.mark.parametrize("protocol", [lambda a: a, Capsule, Interface])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2)])
def test_scalars_and_what_is_empty(on, protocol, shape):
    expected = np.full(shape, 7, np.float32)
    check(protocol(on.array(expected)), expected)
    batch = np.broadcast_to(expected, (4, *shape)).copy()
    field = Field(shape, np.float32)
    got = through(protocol(on.array(batch)), field, 4)
    np.testing.assert_array_equal(got, batch)


@pytest.mark.parametrize("dtype", ["u2", "i4", "f8", "c16"])
@pytest.mark.parametrize("offset", [1, 2, 3, 5, 8])
def test_misaligned_leaves(on, dtype, offset):
    """Their addresses are no multiple of an item's size."""
    expected = values(Field((3, 4), dtype), (), np.random.default_rng(offset))
    content = np.zeros(offset, np.uint8).tobytes() + expected.tobytes()
    array = on.array(np.frombuffer(content, np.uint8))
    interface = array.__cuda_array_interface__
    leaf = Interface(
        array,
        shape=(3, 4),
        typestr=expected.dtype.str,
        data=(interface["data"][0] + offset, False),
    )
    assert bits(through(leaf, Field((3, 4), dtype))) == bits(expected)


@pytest.mark.parametrize("step", [3, 5, 9])
def test_strides_that_are_no_multiple_of_an_item(on, step):
    """As a field of packed structures has them."""
    content = np.random.default_rng(step).integers(0, 256, 60, np.uint8)
    array = on.array(content)
    expected = np.ndarray((6,), "<u2", content, 1, (step,))
    interface = array.__cuda_array_interface__
    leaf = Interface(
        array,
        shape=(6,),
        typestr="<u2",
        strides=(step,),
        data=(interface["data"][0] + 1, False),
    )
    check(leaf, expected)


def test_an_interface_that_is_read_only(on):
    array = on.array(ITEMS)
    address = array.__cuda_array_interface__["data"][0]
    check(Interface(array, data=(address, True)), ITEMS)


def test_an_interface_without_strides_or_stream(on):
    array = on.array(ITEMS)
    stream = array.__cuda_array_interface__["stream"]
    leaf = Interface(array, strides=..., stream=..., version=2)
    with echobuf.EchoBuffer(
        ITEMS, batch_size=1, window=1, factor=1, device="cuda"
    ) as buffer:
        buffer.put(leaf, stream=stream)
        np.testing.assert_array_equal(buffer.next_batch()[0], ITEMS)


def test_leaves_of_each_protocol_in_one_example(on):
    spec = {
        "host": Field((3,), np.float32),
        "simulated": Field((2, 2), ml_dtypes.bfloat16),
        "interface": Field((), np.int64),
        "capsule": Field((5,), np.bool_),
    }
    chance = np.random.default_rng(0)
    example = {name: values(field, (), chance) for name, field in spec.items()}
    put = {
        "host": example["host"],
        "simulated": on.array(example["simulated"]),
        "interface": Interface(on.array(example["interface"])),
        "capsule": Capsule(on.array(example["capsule"])),
    }
    with echobuf.EchoBuffer(
        spec, batch_size=1, window=1, factor=1, device="cuda"
    ) as buffer:
        buffer.put(put)
        batch = buffer.next_batch()
    for name, leaf in example.items():
        assert bits(batch[name][0]) == bits(leaf)


@pytest.mark.parametrize("seed", range(8))
def test_random_views(on, seed):
    """Random strides, signs, parts and orders of axes."""
    dice = random.Random(seed)
    for _ in range(12):
        shape = [dice.randint(1, 6) for _ in range(dice.randint(1, 5))]
        expected = values(
            Field(shape, dice.choice(["u1", "i2", "f4", "i8", "c16"])),
            (),
            np.random.default_rng(seed),
        )
        leaf = on.array(expected)
        parts = tuple(
            slice(dice.choice([None, 1]), None, dice.choice([1, 1, 2, -1, -2]))
            for _ in shape
        )
        leaf, expected = leaf[parts], expected[parts]
        if dice.random() < 0.5:
            leaf, expected = leaf.T, expected.T
        assert bits(through(leaf, Field(expected.shape, expected.dtype))) == bits(
            expected
        )
