"""Values as JSON and back, exactly."""

import collections
import json
import math
import pickle
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echobuf.plain import NotPlainError, decode, encode

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.integers(-(2**31), 2**31 - 1).map(np.int32)
    | st.floats(width=32, allow_nan=False).map(np.float32)
)
KEYS = st.text() | st.integers() | st.tuples(st.integers(), st.text()) | st.binary()
VALUES = st.recursive(
    SCALARS,
    lambda each: (
        st.lists(each)
        | st.lists(each).map(tuple)
        | st.dictionaries(KEYS, each)
        | st.dictionaries(KEYS, each).map(collections.OrderedDict)
        | st.frozensets(KEYS)
        | st.sets(KEYS)
    ),
    max_leaves=20,
)


def there_and_back(value):
    return decode(json.loads(json.dumps(encode(value), allow_nan=False)))


def same(one, other):
    """Equal, and of the same types all the way."""
    assert type(one) is type(other)
    assert one == other
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, list | tuple):
        return all(map(same, one, other))
    return isinstance(one, set | frozenset) or repr(one) == repr(other)


@given(VALUES)
def test_values(value):
    assert same(there_and_back(value), value)


@pytest.mark.parametrize("value", [math.inf, -math.inf, -0.0, 2**200, bytearray(b"a")])
def test_special_values(value):
    assert same(there_and_back(value), value)


def test_not_a_number():
    assert math.isnan(there_and_back({"x": math.nan})["x"])


def test_a_dict_that_looks_like_what_is_made_of_others():
    for value in (encode((1, 2)), {"echobuf-type": "tensor", "value": None}):
        assert same(there_and_back(value), value)


@pytest.mark.parametrize("dtype", ["u1", ">i4", "f8", "?", "c8", "M8[s]", "<U3"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 1), (2, 3)])
def test_arrays(dtype, shape):
    value = np.arange(math.prod(shape)).astype("i8").astype(dtype).reshape(shape)
    back = there_and_back(value)
    np.testing.assert_array_equal(back, value)
    assert (back.dtype, back.shape) == (value.dtype, value.shape)
    back[...] = back  # it can be written to
    turned = there_and_back(value.T)
    np.testing.assert_array_equal(turned, value.T)


def test_tensors():
    torch = pytest.importorskip("torch")
    for dtype in (torch.uint8, torch.bfloat16, torch.int64, torch.bool, torch.cfloat):
        for shape in ((), (0,), (3,), (2, 3)):
            value = torch.ones(shape, dtype=dtype)
            back = there_and_back(value)
            assert back.dtype == dtype
            assert back.shape == value.shape
            assert torch.equal(back, value)
    turned = torch.arange(6).reshape(2, 3).T
    assert torch.equal(there_and_back(turned), turned)


@pytest.mark.filterwarnings("ignore:.*quantize")
def test_tensors_whose_bytes_are_not_all_are_refused():
    torch = pytest.importorskip("torch")
    quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    for value, said in (
        (quantized, "`state` is a quantized tensor"),
        (torch.eye(2).to_sparse(), "sparse"),
        (torch.empty(2, device="meta"), "meta"),
    ):
        with pytest.raises(NotPlainError, match=said):
            encode(value)


def test_generators_go_on():
    generator = random.Random(3)
    numpy = np.random.default_rng(3)
    kept = there_and_back([generator.getstate(), numpy.bit_generator.state])
    expected = generator.random(), numpy.random()
    generator.setstate(kept[0])
    numpy.bit_generator.state = kept[1]
    assert (generator.random(), numpy.random()) == expected


def test_what_is_kept_does_not_change():
    value = {"a": [1, {"b": bytearray(b"x")}], "c": np.zeros(2)}
    kept = encode(value)
    before = json.dumps(kept)
    value["a"][1]["b"][0] = 0
    value["a"].append(2)
    value["c"][0] = 1
    assert json.dumps(kept) == before


class Anything:
    pass


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"a": [0, Anything()]}, r"`state\['a'\]\[1\]` is of type .*Anything"),
        (np.array([None]), "`state` has dtype object"),
        ({"f": print}, r"`state\['f'\]`"),
        (collections.namedtuple("Point", "x")(1), "`state` is of type"),
    ],
)
def test_other_values_are_refused(value, name):
    with pytest.raises(NotPlainError, match=name):
        encode(value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("array", ["O", [1], ""]),
        ("array", ["u1", [2], "AA=="]),
        ("array", []),
        ("tensor", ["load", [1], "AA=="]),
        ("tensor", ["uint8", [3], "AA=="]),
        ("bytes", "?"),
        ("pickle", pickle.dumps(0).hex()),
        ([], 0),
        ("set", [{}]),
    ],
)
def test_what_was_not_made_here_is_refused(kind, value):
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r".*"):
        decode({"echobuf-type": kind, "value": value})
