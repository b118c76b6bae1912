"""`put` of what datasets yield: Python numbers, tensors, and what lends its memory."""

import array
import ctypes
import decimal
import enum
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from echobuf import Field, SpecError

pytestmark = pytest.mark.contract

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def make(*fields):
    return echobuf.EchoBuffer(fields, window=4, batch_size=1, factor=1)


def passed(field, value):
    """Return `value` after it went through a buffer, beside an array."""
    with make(Field((3,), "uint8"), field) as buffer:
        buffer.put((np.zeros(3, np.uint8), value))
        buffer.close()
        _, batch = buffer.next_batch()
        return np.asarray(batch)[0]


def same(got, expected):
    expected = np.asarray(expected)
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    assert got.tobytes() == expected.tobytes()


def refused(field, value, message):
    with make(Field((3,), "uint8"), field) as buffer:
        with pytest.raises(SpecError, match=message):
            buffer.put((np.zeros(3, np.uint8), value))
        assert buffer.stats().fresh == 0


@pytest.fixture(name="natively")
def _natively(monkeypatch):
    """Nothing is converted by Python."""

    def convert(*_args, **_kwargs):
        raise AssertionError("Python was asked to convert")

    monkeypatch.setattr("echobuf._engine.arrays.prepare_put", convert)


# ---- Python numbers


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(INTEGERS), st.data())
def test_an_int_goes_into_integers_that_hold_it(dtype, data):
    held = np.iinfo(dtype)
    number = data.draw(st.integers(held.min - 2, held.max + 2))
    field = Field((), dtype)
    if held.min <= number <= held.max:
        same(passed(field, number), np.array(number, dtype))
    else:
        refused(field, number, rf"`example\[1\]` is {number}; {dtype} holds {held.min}")


@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_ends_of_integers(dtype, natively):
    for number in (np.iinfo(dtype).min, np.iinfo(dtype).max):
        same(passed(Field((), dtype), int(number)), np.array(number, dtype))


def test_an_int_of_any_length_is_refused_in_one_line():
    refused(Field((), "int64"), 10**5000, r"is an int of 16610 bits; int64 holds -9")
    refused(Field((), "uint64"), -(2**64), "holds 0 to 18446744073709551615")


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(["float16", "float32", "float64"]), st.floats())
def test_a_float_is_rounded_to_the_nearest(dtype, number):
    with np.errstate(over="ignore"):
        expected = np.array(number, dtype)
    if np.isfinite(number) and not np.isfinite(expected):
        refused(Field((), dtype), number, rf"is .*; {dtype} holds up to ")
    else:
        same(passed(Field((), dtype), number), expected)


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        ("bool", True),
        ("bool", False),
        ("float32", 0.1),
        ("float64", -0.0),
        ("complex64", 0.1 + 2j),
        ("complex128", complex("nan-infj")),
    ],
)
def test_numbers_go_into_numbers_of_their_kind(dtype, number, natively):
    same(passed(Field((), dtype), number), np.array(number, dtype))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int64", True),
        ("int64", 1.0),
        ("bool", 1),
        ("float32", 1),
        ("float64", 1),
        ("float64", 1j),
        ("complex128", 1.0),
        ("float32", np.float64(1)),
        ("int32", np.int64(1)),
        ("int64", decimal.Decimal(1)),
        ("float64", "1.0"),
    ],
)
def test_of_another_kind_they_are_refused(dtype, value):
    refused(Field((), dtype), value, r"`example\[1\]` (has dtype|is of type)")


def test_a_complex_number_beyond_the_range():
    refused(Field((), "complex64"), complex(1e39, 0), "complex64 holds up to")


class Label(enum.IntEnum):
    CAT = 7


def test_numbers_of_other_types_are_numpy_s():
    same(passed(Field((), "int64"), Label.CAT), np.int64(7))
    same(passed(Field((), "float64"), np.float64(0.5)), np.float64(0.5))
    refused(Field((), "int32"), Label.CAT, "has dtype int64")


@pytest.mark.parametrize("count", [4, 5, 9])
def test_examples_of_many_numbers(count, natively):
    numbers = tuple(range(count))
    with make(*[Field((), "int64")] * count) as buffer:
        buffer.put(numbers)
        buffer.close()
        batch = buffer.next_batch()
    assert tuple(int(np.asarray(leaf)[0]) for leaf in batch) == numbers


def test_a_number_is_no_array():
    refused(Field((1,), "int64"), 3, r"has shape \[\]; the spec says \[1\]")
    with make(Field((), "int64")) as buffer, pytest.raises(SpecError, match="shape"):
        buffer.put_batch((3,))


# ---- tensors

TYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint16, torch.uint32, torch.uint64, torch.float16, torch.float32,
    torch.float64, torch.complex64, torch.complex128,
]  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (0, 3), (1, 4, 1)], ids=str)
def test_tensors_of_the_cpu(dtype, shape, natively):
    tensor = torch.arange(math.prod(shape)).to(dtype).reshape(shape)
    array_of = tensor.numpy()
    same(passed(Field(shape, array_of.dtype), tensor), array_of)


def test_bfloat16(natively):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    tensor = torch.tensor([0.1, -2.0, float("inf")], dtype=torch.bfloat16)
    got = passed(Field((3,), ml_dtypes.bfloat16), tensor)
    assert got.view(np.uint16).tolist() == tensor.view(torch.uint16).tolist()


def test_batches_of_tensors(natively):
    tensors = torch.arange(24).reshape(8, 3)
    with echobuf.EchoBuffer(
        (Field((3,), "int64"),), window=8, batch_size=8, factor=1
    ) as buffer:
        buffer.put_batch((tensors[::2],))
        buffer.put_batch((tensors[1::2],))
        buffer.close()
        (batch,) = buffer.next_batch()
    assert sorted(np.asarray(batch).tolist()) == tensors.tolist()


def test_views_of_tensors():
    whole = torch.arange(24.0).reshape(4, 6)
    for view in (whole.t()[1:3], whole[1, ::2], whole[:, 2], whole[2:3].expand(5, 6)):
        same(passed(Field(tuple(view.shape), "float32"), view), view.numpy())


def test_what_a_tensor_has_yet_to_conjugate_or_negate_is_not_passed_over():
    lazy = torch.tensor([1 + 2j, -3j], dtype=torch.complex64).conj()
    assert lazy.is_conj()
    refused(Field((2,), "complex64"), lazy, "resolve_conj")
    assert lazy.imag.is_neg()
    refused(Field((2,), "float32"), lazy.imag, "resolve_neg")
    without_gaps = lazy.imag.as_strided((2,), (1,))
    refused(Field((2,), "float32"), without_gaps, "resolve_neg")


@pytest.mark.parametrize(
    "make_tensor",
    [
        lambda: torch.ones(3, requires_grad=True),
        lambda: torch.nn.Parameter(torch.ones(3)),
        lambda: torch.ones(3, device="meta"),
        lambda: torch.ones(3).to_sparse(),
    ],
)
def test_tensors_without_plain_numbers_are_refused(make_tensor):
    refused(Field((3,), "float32"), make_tensor(), r"`example\[1\]` ")


class Doubled(torch.Tensor):
    """Its NumPy array is not what its memory holds."""

    def __array__(self, dtype=None, copy=None):
        return 2 * self.as_subclass(torch.Tensor).numpy()


def test_a_subclass_of_tensors_speaks_for_itself():
    tensor = torch.ones(3).as_subclass(Doubled)
    same(passed(Field((3,), "float32"), tensor), np.full(3, 2, np.float32))


def test_a_class_that_is_called_as_torch_s_is_none_of_its_tensors():
    impostor = type("Tensor", (), {"__module__": "torch", "shape": (3,)})
    refused(Field((3,), "float32"), impostor(), r"`example\[1\]` ")


def test_a_tensor_of_another_dtype_or_shape_is_named():
    refused(Field((3,), "float32"), torch.ones(3).double(), "has dtype float64")
    refused(Field((3,), "float32"), torch.ones(4), r"has shape \[4\]")


# ---- JAX, and objects that lend their memory


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float16", "float32"])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3)], ids=str)
def test_arrays_of_jax(dtype, shape, natively):
    numbers = jnp.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    same(passed(Field(shape, dtype), numbers), np.asarray(numbers))


def test_bfloat16_of_jax():
    numbers = jnp.array([0.1, 2.0], jnp.bfloat16)
    same(passed(Field((2,), jnp.bfloat16), numbers), np.asarray(numbers))


def test_a_traced_array_is_refused():
    def trace(x):
        refused(Field((3,), "float32"), x, r"`example\[1\]` ")
        return x

    jax.jit(trace)(jnp.ones(3))


@pytest.mark.parametrize(
    ("lender", "expected"),
    [
        (array.array("f", [1, 2, 3]), np.array([1, 2, 3], np.float32)),
        (array.array("q", [1, -2]), np.array([1, -2])),
        (memoryview(b"abc"), np.array([97, 98, 99], np.uint8)),
        (bytearray(b"ab"), np.array([97, 98], np.uint8)),
        ((ctypes.c_int32 * 2)(5, 6), np.array([5, 6], np.int32)),
        (memoryview(np.array(2.5)), np.array(2.5)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_lends_its_memory(lender, expected, natively):
    same(passed(Field(expected.shape, expected.dtype), lender), expected)


def test_memory_with_gaps_is_copied():
    lender = memoryview(np.arange(6.0)[::2])
    same(passed(Field((3,), "float64"), lender), np.array([0.0, 2.0, 4.0]))


def test_a_spec_is_inferred_from_them():
    loader = echobuf.EchoLoader(
        [(array.array("f", [1, 2]), memoryview(np.arange(3)))] * 4,
        batch_size=2,
        window=4,
    )
    floats, numbers = next(iter(loader))
    assert floats.dtype == np.float32
    assert numbers.tolist() == [[0, 1, 2]] * 2


def test_a_lender_that_is_released_or_of_another_kind_is_refused():
    released = memoryview(b"abc")
    released.release()
    refused(Field((3,), "uint8"), released, r"`example\[1\]` ")
    refused(Field((3,), "uint8"), b"abc", r"`example\[1\]` is of type bytes")
    refused(Field((1,), "float32"), array.array("d", [1]), "has dtype float64")
    refused(Field((2,), "float32"), array.array("f", [1]), r"has shape \[1\]")


def test_lent_memory_is_given_back():
    lender = bytearray(b"abc")
    passed(Field((3,), "uint8"), lender)
    refused(Field((4,), "uint8"), lender, "of type bytearray, not an array")
    lender.extend(b"d")  # a BufferError while it is lent


def test_a_masked_array_is_refused_though_it_lends():
    masked = np.ma.masked_array(np.ones(3), [0, 1, 0])
    refused(Field((3,), "float64"), masked, "masked array")
