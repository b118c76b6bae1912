"""Bad input: a clear error that names the argument or leaf, and nothing lost."""

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import echobuf
from echobuf import Field
from echobuf.cuda import cupy_device
from helpers import SPEC, WAIT_S, example, stack

pytestmark = pytest.mark.contract

IMAGE = {"image": Field((2, 3), np.float32), "label": Field((), np.int64)}


def make(spec=IMAGE, **kwargs):
    return echobuf.EchoBuffer(spec, **{"batch_size": 2, "window": 8, **kwargs})


def image(shape=(2, 3), dtype=np.float32):
    return {"image": np.zeros(shape, dtype), "label": np.int64(1)}


def says(*parts):
    """A pattern that finds all parts, in any order."""
    return "(?s)" + "".join(f"(?=.*{re.escape(str(part))})" for part in parts)


@pytest.mark.parametrize(
    ("error", "base"),
    [
        (echobuf.SpecError, ValueError),
        (echobuf.OptionError, ValueError),
        (echobuf.ClosedError, RuntimeError),
        (echobuf.StepError, RuntimeError),
        (echobuf.UpstreamError, RuntimeError),
        (echobuf.CapacityError, MemoryError),
        (echobuf.DeviceError, RuntimeError),
        (echobuf.StateError, ValueError),
        (echobuf.ForkError, RuntimeError),
    ],
)
def test_each_error_is_also_a_built_in_one(error, base):
    assert issubclass(error, echobuf.EchobufError)
    assert issubclass(error, base)


BAD_OPTIONS = [
    ("batch_size", [None, 0, -1, 2.0, "2", True, 9, 2**70], {}),
    ("batch_size", [5], {"factor": 2.5}),  # 2 * (8 // 3) = 4
    ("batch_size", [2], {"unit": "batch"}),
    ("window", [0, -1, 1, 8.0, None, "8", True], {}),
    ("window", [8], {"factor": 9}),
    ("window", [8], {"factor": 8.5}),
    ("window", [8], {"factor": 10**400}),
    ("factor", [0, 0.5, -2, 1 - 1e-9, float("nan"), float("inf")], {}),
    ("factor", [-float("inf"), Decimal("NaN"), Decimal("Infinity")], {}),
    ("factor", [2 + 0j, np.complex128(2), True, np.True_, "2", "AUTO", ""], {}),
    ("factor", [None, [2], np.array([2, 3]), Fraction(1, 2), b"auto"], {}),
    ("max_factor", [0, -1, 2.5, "8", None, True], {}),
    ("unit", ["", "Batch", None, 1], {}),
    ("device", ["gpu", "cpu:0", "cuda:", "cuda:x", "cuda:-1", None, 0], {}),
    ("seed", [-1, 2**64, 1.5, "0", None], {}),
    ("prefetch", [-1, 1.5, None, True], {}),
    ("drop_last", [None, 0, "no"], {}),
    ("max_bytes", [-1, 1e9, "1"], {}),
    ("transform", ["flip", 3, lambda batch: batch], {}),
]


@pytest.mark.parametrize(
    ("name", "value", "others"),
    [(name, value, others) for name, values, others in BAD_OPTIONS for value in values],
)
def test_an_argument_out_of_range_is_named(name, value, others):
    with pytest.raises(echobuf.OptionError) as caught:
        make(**{**others, name: value})
    text = str(caught.value)
    assert f"`{name}`" in text
    if name != "transform":
        assert repr(value) in text
        assert "must be" in text or "leave it out" in text


class Odd:
    """A value that is nothing, and cannot be shown."""

    def __repr__(self):
        raise RuntimeError("no repr")

    def __index__(self):
        raise KeyError("no index")


@pytest.mark.host
@pytest.mark.parametrize("name", [*dict.fromkeys(name for name, *_ in BAD_OPTIONS)])
def test_a_value_that_cannot_be_shown_is_refused_all_the_same(name):
    with pytest.raises(
        echobuf.OptionError, match=f"`{name}` is a Odd without a `repr`"
    ):
        make(**{name: Odd()})


@pytest.mark.host
def test_an_int_that_has_too_many_digits_is_refused():
    with pytest.raises(echobuf.OptionError, match="`seed` is a int without a `repr`"):
        make(seed=10**5000)


@pytest.mark.parametrize("factor", [1, 2.5, np.float32(2), np.int8(3), Fraction(7, 3)])
def test_every_kind_of_real_number_is_a_factor(factor):
    make(factor=factor, window=1000)


def test_a_window_that_is_not_given_is_a_type_error():
    with pytest.raises(TypeError, match="window"):
        echobuf.EchoBuffer(IMAGE, batch_size=2)


@pytest.mark.host
@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:17"])
def test_a_device_that_is_not_there_says_what_to_do(device, monkeypatch):
    monkeypatch.setattr(cupy_device, "LIBRARY", "libechobuf-is-not-there.so.1")
    with pytest.raises(echobuf.DeviceError, match=says("`device`", device, "install")):
        make(device=device)
    with pytest.raises(echobuf.DeviceError, match="`device`"):
        echobuf.warmup(device)


BAD_SPECS = [
    (None, "`spec`"),
    ({}, "`spec`"),
    ((), "`spec`"),
    ([[], {"a": ()}], "`spec`"),
    ({"name": "cat"}, "`spec['name']`"),
    ({"name": np.array(["cat"])}, "`spec['name']`"),
    ({"name": np.array([b"cat"])}, "`spec['name']`"),
    ({"thing": np.array([None])}, "`spec['thing']`"),
    ((1, object()), "`spec[1]`"),
]


@pytest.mark.parametrize(("spec", "name"), BAD_SPECS)
def test_a_spec_that_cannot_be_stored_names_the_leaf(spec, name):
    with pytest.raises(echobuf.SpecError, match=says(name)):
        make(spec)


@pytest.mark.parametrize(
    ("shape", "dtype", "name"),
    [
        ((-1,), "f4", "`shape`"),
        ((2.5,), "f4", "`shape`"),
        ("ab", "f4", "`shape`"),
        ((1,) * 64, "f4", "`shape`"),  # a batch has one axis more than NumPy allows
        ((2**63, 0), "f4", "`shape`"),
        ((2**40, 2**40, 0), "f4", "`shape`"),
        ((2,), object, "`dtype`"),
        ((2,), "U3", "`dtype`"),
        ((2,), "S3", "`dtype`"),
        ((2,), str, "`dtype`"),
        ((2,), "nonsense", "`dtype`"),
        ((2,), [("a", object)], "`dtype`"),
        ((2,), [("a", "f4"), ("a", "f4")], "`dtype`"),
        ((), ("f4", (3,)), "`dtype`"),  # no array has a dtype with a shape
    ],
)
def test_a_field_that_cannot_be_stored_is_refused(shape, dtype, name):
    with pytest.raises(echobuf.SpecError, match=name):
        make(Field(shape, dtype))


def test_batch_echoing_needs_a_batch_axis_of_one_length():
    for spec in (Field((), "i8"), {"a": Field((2,), "i8"), "b": Field((3,), "i8")}):
        with pytest.raises(echobuf.SpecError, match=says("`spec", "axis")):
            make(spec, unit="batch", batch_size=None)


BAD_EXAMPLES = [
    (None, "`example`", "image"),
    ({"image": np.zeros((2, 3), np.float32)}, "`example`", "label"),
    ({**image(), "more": 1}, "`example`", "more"),
    (tuple(image().values()), "`example`", "image"),
    (image((3, 2)), "`example['image']`", "[3, 2]", "[2, 3]"),
    (image((6,)), "`example['image']`", "[6]", "[2, 3]"),
    (image((4, 2, 3)), "`example['image']`", "[4, 2, 3]", "`put_batch`"),
    (image(dtype=np.float64), "`example['image']`", "float64", "float32"),
    (image(dtype=">f4"), "`example['image']`", ">f4", "float32"),
    (image(dtype=np.complex64), "`example['image']`", "complex64", "float32"),
    (image(dtype=object), "`example['image']`", "object"),
    (image(dtype="U1"), "`example['image']`", "<U1"),
    ({**image(), "label": 1.0}, "`example['label']`", "float64", "int64"),
    ({**image(), "label": "cat"}, "`example['label']`", "str"),
    ({**image(), "label": 2**70}, "`example['label']`"),
    ({**image(), "label": True}, "`example['label']`", "bool", "int64"),
    ({**image(), "image": [[0.0] * 3] * 2}, "`example['image']`", "list"),
]


@pytest.mark.parametrize("bad", BAD_EXAMPLES)
def test_a_refused_put_names_the_leaf_and_changes_nothing(bad):
    tree, *parts = bad
    with make() as buffer, make() as untouched:
        for each in (buffer, untouched):
            each.put_batch({"image": np.ones((3, 2, 3), "f4"), "label": np.arange(3)})
        before = buffer.stats()
        with pytest.raises(echobuf.SpecError, match=says(*parts)):
            buffer.put(tree)
        with pytest.raises(echobuf.SpecError, match="`batch"):
            buffer.put_batch(tree)
        assert buffer.stats() == before
        served = []
        for each in (buffer, untouched):
            each.close()
            served.append([batch["label"].tolist() for batch in each])
        assert served[0] == served[1]


@pytest.mark.parametrize(
    ("batch", "parts"),
    [
        ({"image": np.zeros((2, 2, 3), "f4"), "label": np.arange(3)}, ["2", "3"]),
        (image(), ["`put`", "[2, 3]"]),
        ({"image": np.zeros((2, 2, 3), "f4"), "label": 1}, ["`batch['label']`"]),
        ({"image": np.zeros((0, 2, 3), "f4"), "label": np.arange(1)}, ["0", "1"]),
    ],
)
def test_a_batch_whose_leaves_differ_in_length_is_refused(batch, parts):
    with make() as buffer:
        with pytest.raises(echobuf.SpecError, match=says("`batch", *parts)):
            buffer.put_batch(batch)
        assert buffer.stats().fresh == 0


def test_a_batch_longer_than_the_spec_is_refused_with_batch_echoing():
    with make(Field((4, 2), "i4"), unit="batch", batch_size=None) as buffer:
        for shape in ((5, 2), (4, 3), (4,)):
            with pytest.raises(echobuf.SpecError, match=says("up to 4", list(shape))):
                buffer.put(np.zeros(shape, "i4"))


@pytest.mark.parametrize(
    "timeout", [-1, -1e-9, float("nan"), "1", True, [1], np.complex128(1)]
)
def test_a_timeout_that_is_no_time_is_refused(timeout):
    with make(SPEC) as buffer:
        for call in (
            lambda: buffer.put(example(0), timeout=timeout),
            lambda: buffer.put_batch(stack([0]), timeout=timeout),
            lambda: buffer.next_batch(timeout=timeout),
        ):
            with pytest.raises(echobuf.OptionError, match=says("`timeout`", timeout)):
                call()
        assert buffer.stats().fresh == 0
        buffer.put_batch(stack(range(8)), timeout=float("inf"))
        buffer.next_batch(timeout=WAIT_S)


def test_other_arguments_are_checked_too():
    with make() as buffer:
        for epoch in (-1, 1.5, "2", True):
            with pytest.raises(echobuf.OptionError, match="`epoch`"):
                buffer.reset(epoch)
        with pytest.raises(echobuf.OptionError, match="`exc`"):
            buffer.fail("no exception")
        with pytest.raises(echobuf.OptionError, match="`stream`"):
            buffer.next_batch(stream="the first")


@pytest.mark.parametrize("window", [2**40, 2**62, 2**64, 10**30])
def test_a_window_that_does_not_fit_memory_is_refused_before_allocation(window):
    with pytest.raises(echobuf.CapacityError, match=says("`window`", "bytes")):
        make(window=window)
