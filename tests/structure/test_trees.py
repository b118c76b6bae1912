"""Every structure that an example can have comes back as it was put."""

from collections import OrderedDict, defaultdict, deque
from typing import NamedTuple

import numpy as np
import optree
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from echobuf import Field
from helpers import WAIT_S

pytestmark = pytest.mark.contract


class Point(NamedTuple):
    x: object
    y: object


RECORD = np.dtype([("when", "M8[s]"), ("where", "f4", (2,)), ("n", "u1")], align=True)
A, B, C = Field((), "i8"), Field((2, 3), "f4"), Field((5,), "u1")

STRUCTURES = {
    "leaf": A,
    "tuple": (A, B),
    "tuple of one": (A,),
    "list": [A, B, C],
    "dict": {"b": A, "a": B},
    "dict of mixed keys": {"z": A, 3: B, "a": C, None: A},
    "ordered": OrderedDict([("b", A), ("a", B)]),
    "default": defaultdict(list, {"b": A, "a": B}),
    "deque": deque([A, B], maxlen=7),
    "namedtuple": Point(A, B),
    "nested": {"p": Point([A, (B,)], {"q": {"r": C}}), "o": OrderedDict(k=(A, A))},
    "none": {"a": None, "b": A, "c": (None, [None, B])},
    "empty parts": {"a": (), "b": [], "c": {}, "d": A},
}
DTYPES = [
    *("?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", "g"),
    *(">i4", ">f8", ">c8", ">M8[ns]"),
    *("M8[D]", "M8[ns]", "m8[us]", "V1", "V2", "V3", "V17"),
    RECORD,
    np.dtype([("big", ">i4"), ("inner", [("a", "?"), ("b", "c16")])]),
]


def is_field(node):
    return isinstance(node, Field)


def content(field, numbers):
    """Arrays that follow from numbers: the number's bytes, over and over."""
    numbers = np.asarray(numbers, np.uint8)
    size = int(np.prod(field.shape)) * field.dtype.itemsize
    byte = (numbers[:, None] + np.arange(size)) % 2  # also of bools and of times
    whole = np.ascontiguousarray(byte.astype(np.uint8))
    if field.dtype == bool or size == 0:
        return np.zeros((len(numbers), *field.shape), field.dtype)
    return whole.view(field.dtype).reshape(len(numbers), *field.shape)


def stacked(spec, numbers):
    return optree.tree_map(lambda f: content(f, numbers), spec, is_leaf=is_field)


def unstacked(spec, number):
    return optree.tree_map(lambda f: content(f, [number])[0], spec, is_leaf=is_field)


def assert_same(got, expected):
    leaves, structure = optree.tree_flatten(got)
    wanted, wanted_structure = optree.tree_flatten(expected)
    assert structure == wanted_structure
    for leaf, want in zip(leaves, wanted, strict=True):
        assert type(leaf) is np.ndarray
        assert leaf.dtype == want.dtype
        assert leaf.shape == want.shape
        assert leaf.tobytes() == want.tobytes()
        assert leaf.ctypes.data % 64 == 0
        assert leaf.flags.c_contiguous


def same_keys(one, other):
    """Return True if the dicts in two trees have the same order of keys."""
    if isinstance(one, dict):
        return list(one) == list(other) and all(
            map(same_keys, one.values(), other.values())
        )
    if isinstance(one, (list, tuple, deque)):
        return type(one) is type(other) and all(map(same_keys, one, other))
    return True


@pytest.mark.parametrize("unit", ["example", "batch"])
@pytest.mark.parametrize("name", STRUCTURES)
def test_a_structure_comes_back(name, unit):
    spec = STRUCTURES[name]
    with echobuf.EchoBuffer(spec, batch_size=4, window=4, factor=1) as buffer:
        buffer.put(unstacked(spec, 7))
        buffer.put_batch(stacked(spec, [7, 7]))
        buffer.put(unstacked(spec, 7))
        buffer.close()
        batch = buffer.next_batch(timeout=WAIT_S)
        expected = stacked(spec, [7] * 4)
    assert_same(batch, expected)
    assert type(batch) is type(expected)
    assert same_keys(batch, expected)


@pytest.mark.parametrize("name", sorted(set(STRUCTURES) - {"leaf"}))
def test_a_structure_of_whole_batches_comes_back(name):
    whole = optree.tree_map(
        lambda f: Field((3, *f.shape), f.dtype), STRUCTURES[name], is_leaf=is_field
    )
    with echobuf.EchoBuffer(whole, unit="batch", window=2, factor=1) as buffer:
        put = [stacked(STRUCTURES[name], numbers) for numbers in ([1, 2, 3], [4, 5])]
        for batch in put:
            buffer.put(batch)
        buffer.close()
        got = sorted(buffer, key=lambda b: -len(optree.tree_leaves(b)[0]))
    for batch, expected in zip(got, put, strict=True):
        assert_same(batch, expected)
        assert same_keys(batch, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (3, 2)])
def test_a_dtype_comes_back(dtype, shape):
    field = Field(shape, dtype)
    expected = content(field, [9] * 4)
    with echobuf.EchoBuffer(field, batch_size=4, window=4, factor=1) as buffer:
        buffer.put(expected[:1].reshape(shape))  # a NumPy scalar has no byte order
        buffer.put_batch(expected[1:])
        buffer.close()
        batch = buffer.next_batch(timeout=WAIT_S)
    assert_same(batch, expected)


@pytest.mark.parametrize("dtype", [">f8", "M8[ns]", "V2", RECORD], ids=str)
def test_a_dtype_that_only_looks_alike_is_refused(dtype):
    other = {">f8": "<f8", "M8[ns]": "M8[us]", "V2": "i2"}
    unlike = np.dtype(other[dtype] if isinstance(dtype, str) else [("n", "V24")])
    with echobuf.EchoBuffer(Field((2,), dtype), batch_size=1, window=2) as buffer:
        with pytest.raises(echobuf.SpecError, match="dtype"):
            buffer.put(np.zeros(2, unlike))
        buffer.put(np.zeros(2, dtype))


def test_arrays_tensors_and_numbers_make_a_spec():
    torch = pytest.importorskip("torch")
    spec = {
        "array": np.zeros((2, 3), ">i2"),
        "tensor": torch.zeros(4, dtype=torch.float16),
        "scalar": np.float32(1),
        "int": 1,
        "float": 1.0,
        "bool": True,
        "complex": 1j,
    }
    with echobuf.EchoBuffer(spec, batch_size=2, window=2, factor=1) as buffer:
        buffer.put(spec)
        buffer.put(spec)
        batch = buffer.next_batch(timeout=WAIT_S)
    for name, leaf in spec.items():
        one = np.asarray(leaf)
        assert batch[name].dtype == one.dtype
        assert batch[name].shape == (2, *one.shape)
        np.testing.assert_array_equal(batch[name][1], one)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_leaves_without_elements_are_counted_and_served(shape):
    for spec in (Field(shape, "f4"), {"a": Field(shape, "f4"), "b": A, "c": B}):
        kwargs = {"batch_size": 4, "window": 4, "factor": 2}
        with echobuf.EchoBuffer(spec, **kwargs) as buffer:
            buffer.put_batch(stacked(spec, [3] * 5), timeout=WAIT_S)
            buffer.put(unstacked(spec, 3), timeout=0)
            buffer.close()
            got = list(buffer)
        assert len(got) == 3
        for batch in got:
            assert_same(batch, stacked(spec, [3] * 4))


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_batches_of_any_length_up_to_the_spec_are_echoed(rows):
    spec = {"a": Field((3, 2), "f4"), "b": Field((3,), "i8")}
    batch = {"a": np.ones((rows, 2), "f4"), "b": np.arange(rows)}
    with echobuf.EchoBuffer(spec, unit="batch", window=2, factor=2) as buffer:
        buffer.put(batch)
        buffer.put_batch({key: leaf[None] for key, leaf in batch.items()})
        buffer.close()
        got = list(buffer)
    assert len(got) == 4
    for each in got:
        assert_same(each, batch)


LAYOUTS = {
    "reversed": lambda x: x[::-1].copy()[::-1],
    "reversed rows": lambda x: x[:, ::-1].copy()[:, ::-1],
    "fortran": np.asfortranarray,
    "every other": lambda x: np.repeat(x, 2, axis=0)[::2],
    "inner stride": lambda x: np.repeat(x, 3, axis=2)[:, :, ::3],
    "moved axis": lambda x: np.moveaxis(np.moveaxis(x, 0, -1).copy(), -1, 0),
    "read-only": lambda x: np.broadcast_to(x, x.shape),
    "unaligned": lambda x: np.frombuffer(b"?" + x.tobytes(), x.dtype, offset=1).reshape(
        x.shape
    ),
    "subclass": lambda x: x.view(np.matrix) if x.ndim == 2 else x.view(np.recarray),
    "tensor": lambda x: tensor_of(x.transpose(2, 1, 0).copy()).permute(2, 1, 0),
}


def tensor_of(array):
    return pytest.importorskip("torch").from_numpy(array)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 6), st.integers(1, 3), st.integers(1, 4), st.data())
def test_memory_may_lie_in_any_order(n, rows, columns, data):
    spec = {name: Field((rows, columns), "i4") for name in LAYOUTS}
    values = np.arange(n * rows * columns, dtype="i4").reshape(n, rows, columns)
    put = {name: make(values) for name, make in LAYOUTS.items()}
    cut = data.draw(st.integers(0, n))
    with echobuf.EchoBuffer(spec, batch_size=8, window=8, factor=1) as buffer:
        buffer.put_batch({name: leaf[:cut] for name, leaf in put.items()})
        for at in range(cut, n):
            buffer.put({name: leaf[at] for name, leaf in put.items()})
        buffer.close()
        for batch in buffer:
            first = batch["reversed"]
            assert sorted(first[:, 0, 0]) == values[:, 0, 0].tolist()
            for leaf in batch.values():
                np.testing.assert_array_equal(leaf, first)


def test_an_array_that_repeats_its_memory_may_be_put():
    one = np.broadcast_to(np.arange(3), (4, 3))
    with echobuf.EchoBuffer(Field((3,), "i8"), batch_size=4, window=4) as buffer:
        buffer.put_batch(one)
        buffer.close()
        np.testing.assert_array_equal(next(buffer), one)
