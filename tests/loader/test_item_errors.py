"""Errors about items of upstream, read as a newcomer reads them."""

import collections
import datetime
import decimal
import enum
import fractions
import pathlib
import traceback
import warnings

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("jax")

import jax
import torch

import echobuf
import echobuf.jax
import echobuf.torch

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

KWARGS = {"batch_size": 1, "window": 2, "factor": 1}
LOADERS = {
    "numpy": echobuf.EchoLoader,
    "torch": echobuf.torch.EchoLoader,
    "jax": echobuf.jax.EchoLoader,
}
every_loader = pytest.mark.parametrize("make", LOADERS.values(), ids=LOADERS)
Pair = collections.namedtuple("Pair", "x y")


class Color(enum.Enum):
    RED = 1


class Subclass(torch.Tensor):
    pass


def quantized():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.zeros(2), 1.0, 0, torch.qint8)


def nested(layout):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = [torch.zeros(2), torch.zeros(3)]
        return torch.nested.nested_tensor(parts, layout=layout)


def masked():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.masked.masked_tensor(torch.zeros(2), torch.tensor([True, False]))


def complex32():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.zeros(2, dtype=torch.complex32)


def sparse_csr():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.eye(2).to_sparse_csr()


OBJECTS = {
    "None": (lambda: None, "Fill in a number"),
    "set": (lambda: {1, 2}, "`np.array(sorted(x))`"),
    "range": (lambda: range(3), "`np.array(list(x))`"),
    "enum": (lambda: Color.RED, "`list(type(x)).index(x)`"),
    "Decimal": (lambda: decimal.Decimal(1), "`float(x)`"),
    "Fraction": (lambda: fractions.Fraction(1, 2), "`float(x)`"),
    "datetime": (lambda: datetime.datetime(2020, 1, 1), "`x.timestamp()`"),
    "date": (lambda: datetime.date(2020, 1, 1), "`x.toordinal()`"),
    "timedelta": (datetime.timedelta, "`x.total_seconds()`"),
    "path": (lambda: pathlib.Path("a"), "Encode it as numbers"),
    "text": (lambda: "a", "Encode it as numbers"),
    "bytes": (lambda: b"a", "Decode it"),
    "object": (object, "Convert it"),
}
"""Leaves that are no arrays, and the words of the remedy."""

REFUSED = {
    "a great int": (lambda: 2**70, "more than 64 bits"),
    "masked": (lambda: np.ma.array([1, 2], mask=[0, 1]), "fill it"),
    "key": (lambda: jax.random.key(0), "`jax.random.key_data(x)`"),
    "sparse": (lambda: torch.eye(2).to_sparse(), "`x.to_dense()`"),
    "csr": (sparse_csr, "`x.to_dense()`"),
    "meta": (lambda: torch.zeros(2, device="meta"), "no data"),
    "nested": (lambda: nested(torch.strided), "`x.to_padded_tensor(padding=0)`"),
    "jagged": (lambda: nested(torch.jagged), "`x.to_padded_tensor(padding=0)`"),
    "quantized": (quantized, "`x.dequantize()`"),
    "MaskedTensor": (masked, "`x.to_tensor(0)`"),
    "complex32": (complex32, "`x.to(torch.complex64)`"),
}


def refusal_of(make, item, **arguments):
    with pytest.raises(echobuf.SpecError) as caught:
        iter(make([item], **KWARGS, **arguments))
    return str(caught.value)


@every_loader
@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors:UserWarning")
def test_an_array_that_cannot_be_read_has_a_remedy(make, kind):
    bad, remedy = REFUSED[kind]
    text = refusal_of(make, {"w": 1.0, "v": bad()})
    assert "`example['v']`" in text
    assert remedy in text
    assert "`.detach().cpu()`" not in text
    assert "carry" not in text


@every_loader
@pytest.mark.parametrize("kind", OBJECTS)
def test_what_is_no_array_is_carried(make, kind):
    made, _ = OBJECTS[kind]
    items = [{"w": 1.0, "v": made()} for _ in range(3)]
    served = [each for batch in make(items, **KWARGS) for each in batch["v"]]
    assert {*map(id, served)} == {id(item["v"]) for item in items}


@every_loader
@pytest.mark.parametrize("kind", OBJECTS)
def test_what_is_not_to_be_carried_has_a_remedy(make, kind):
    made, remedy = OBJECTS[kind]
    item = {"w": 1.0, "v": made()}
    if kind == "None" and make is echobuf.jax.EchoLoader:
        (batch,) = make([item], **KWARGS, carry=False)
        assert batch["v"] is None  # for JAX a node without leaves
        return
    text = refusal_of(make, item, carry=False)
    assert text.index("say carry=True") < text.index("`example['v']`")
    assert remedy in text


@every_loader
@pytest.mark.parametrize("carry", [False, True])
@pytest.mark.parametrize("item", ["a", {"x": "a", "y": b"b"}, {"x": object()}])
def test_an_item_without_an_array_is_refused(make, item, carry):
    text = refusal_of(make, item, carry=carry)
    assert "the first `example` of upstream has no array" in text
    assert text.count("`example['y']`") == ("y" in item)


NO_DTYPE = {
    "byte order": (np.zeros(2, ">f4"), "x.astype(x.dtype.newbyteorder('='))"),
    "datetime64": (np.zeros(2, "M8[s]"), "x.astype(np.int64)"),
    "a datetime64": (np.datetime64("2020-01-01"), "x.astype(np.int64)"),
    "timedelta64": (np.zeros(2, "m8[s]"), "x.view(np.int64)"),
    "structured": (
        np.zeros(2, [("a", "f4")]),
        "{name: x[name] for name in x.dtype.names}",
    ),
    "longdouble": (np.zeros(2, np.longdouble), "x.astype(np.float64)"),
    "clongdouble": (np.zeros(2, np.clongdouble), "x.astype(np.complex128)"),
}


@pytest.mark.parametrize("make", [LOADERS["torch"], LOADERS["jax"]])
@pytest.mark.parametrize("kind", NO_DTYPE)
def test_a_dtype_that_the_framework_lacks_has_a_remedy_that_works(make, kind):
    array, remedy = NO_DTYPE[kind]
    with pytest.raises(
        echobuf.SpecError, match=r"`example\['v'\]` has dtype"
    ) as caught:
        iter(make([{"v": array}], **KWARGS))
    assert f"`{remedy}`" in str(caught.value)
    assert "interpreting argument" not in str(caught.value)
    made = eval(remedy, {"np": np, "x": array})
    assert len(list(make([{"v": made}], **KWARGS))) == 1


def test_an_array_of_the_other_byte_order_is_told_from_one_of_another_dtype():
    with echobuf.EchoBuffer(np.zeros(2, "f4"), **KWARGS) as buffer:
        with pytest.raises(echobuf.SpecError, match=r"x\.dtype\.newbyteorder\(\)"):
            buffer.put(np.zeros(2, ">f4"))
        with pytest.raises(echobuf.SpecError, match=r"Convert it with `\.astype`"):
            buffer.put(np.zeros(2, "f8"))


# ---- what torch can say, and is read


@pytest.mark.parametrize("kind", ["conj", "neg", "grad", "parameter", "subclass"])
def test_tensors_that_only_look_different_are_read_by_torch_s_loader(kind):
    complex_ = torch.tensor([1 + 2j, 3 - 4j])
    tensor = {
        "conj": complex_.conj(),
        "neg": complex_.conj().imag,
        "grad": torch.ones(2, requires_grad=True),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "subclass": torch.ones(2).as_subclass(Subclass),
    }[kind]
    (batch,) = echobuf.torch.EchoLoader([tensor], **KWARGS)
    assert torch.equal(batch[0], tensor.detach().as_subclass(torch.Tensor))


FOREIGN = [
    *("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"),
    *("float8_e5m2fnuz", "float8_e8m0fnu"),
]


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("batched", [False, True])
def test_jax_reads_dtypes_of_torch_that_numpy_lacks_bit_for_bit(name, batched):
    width = 2 if name == "bfloat16" else 1
    bits = torch.arange(256 * width, dtype=torch.uint8).reshape(-1, 8 * width)
    tensors = bits.view(getattr(torch, name))
    upstream = tensors.split(4) if batched else list(tensors)
    loader = echobuf.jax.EchoLoader(
        [{"x": each} for each in upstream],
        batched=batched, batch_size=4, window=8, factor=1, seed=2,
    )  # fmt: skip
    batches = [batch["x"] for batch in loader]
    assert {str(batch.dtype) for batch in batches} == {name}
    rows = np.concatenate([np.asarray(batch).view(np.uint8) for batch in batches])
    assert sorted(map(bytes, rows)) == sorted(map(bytes, bits.numpy()))


def test_one_dtype_is_not_taken_for_another():
    items = [torch.ones(2), torch.ones(2, dtype=torch.bfloat16)]
    for order in (items, items[::-1]):
        loader = echobuf.jax.EchoLoader(order, **KWARGS)
        with pytest.raises(echobuf.SpecError, match=r"has dtype (bfloat16|float32)"):
            list(loader)


# ---- None


every_place_of_none = pytest.mark.parametrize(
    "item",
    [{"x": 1.0, "y": None}, (1.0, None), Pair(1.0, None)],
    ids=["dict", "", "pair"],
)


@every_loader
@every_place_of_none
@pytest.mark.parametrize("batched", [False, True])
def test_none_is_carried(make, item, batched):
    if batched:
        item = jax.tree.map(lambda leaf: np.full(2, leaf), item)
    for batch in make([item] * 2, batched=batched, **KWARGS):
        assert type(batch) is type(item)
        _, nones = batch.values() if isinstance(batch, dict) else batch
        assert nones == [None]


@every_loader
@every_place_of_none
@pytest.mark.parametrize("batched", [False, True])
def test_none_in_all_examples_is_refused_as_in_some(make, item, batched):
    if batched:
        item = jax.tree.map(lambda leaf: np.full(2, leaf), item)
    loader = make([item] * 2, batched=batched, carry=False, **KWARGS)
    if make is echobuf.jax.EchoLoader:
        for batch in loader:
            assert jax.tree.structure(batch) == jax.tree.structure(item)
        return
    name = "batch" if batched else "example"
    with pytest.raises(
        echobuf.SpecError, match=rf"say carry=True.*`{name}.*NoneType.*Fill in a number"
    ):
        iter(loader)


@every_loader
def test_an_example_without_leaves_is_refused_as_what_upstream_gave(make):
    message = r"`example`, the first item of upstream, is \{\}, which has no leaves"
    with pytest.raises(echobuf.SpecError, match=message):
        iter(make([{}] * 2, **KWARGS))


ODD = {
    "shape": np.zeros(3),
    "dtype": np.zeros(2, np.float32),
    "structure": {"x": np.zeros(2)},
    "kind": "text",
    "None": None,
}


@every_loader
@pytest.mark.parametrize("kind", ODD)
def test_an_item_that_does_not_fit_is_one_traceback_of_a_public_error(make, kind):
    loader = make([np.zeros(2)] * 5 + [ODD[kind]] * 5, **KWARGS)
    with pytest.raises(echobuf.ItemError, match="item 5 of upstream") as caught:
        list(loader)
    error = caught.value
    assert isinstance(error, echobuf.UpstreamError)
    assert isinstance(error, echobuf.SpecError)
    assert isinstance(error, ValueError)
    shown = "".join(traceback.format_exception(error))
    assert shown.count("Traceback (most recent call last)") == 1
    assert "echobuf.errors.ItemError: item 5" in shown


LONGER = {
    "longer": ((7, 3), r"has shape \[7, 3\]; .*\[up to 4, 3\]. .* cut longer ones in"),
    "wider": ((4, 5), r"has shape \[4, 5\]; .*\[up to 4, 3\]. .* pad the examples of"),
    "flat": ((4,), r"has shape \[4\]; .*\[up to 4, 3\]. .* pad the examples of"),
}


@pytest.mark.parametrize("kind", LONGER)
def test_a_whole_batch_that_does_not_fit_says_what_to_do(kind):
    shape, says = LONGER[kind]
    batches = [np.zeros((4, 3)), np.zeros((2, 3)), np.zeros(shape)]
    with pytest.raises(echobuf.ItemError, match=f"(?s)item 2 .*{says}.*`collate_fn`"):
        list(echobuf.EchoLoader(batches, unit="batch", window=2, factor=1))


def test_a_cause_that_says_more_is_kept():
    items = [torch.zeros(2, 2)] * 3 + [torch.eye(2).to_sparse()]
    with pytest.raises(echobuf.ItemError) as caught:
        list(echobuf.torch.EchoLoader(items, **KWARGS))
    assert "Sparse" in str(caught.value.__cause__)
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.count("Traceback (most recent call last)") == 2


def test_every_error_that_users_see_has_a_public_name():
    def all_of(error):
        yield error
        for each in error.__subclasses__():
            yield from all_of(each)

    for error in all_of(echobuf.EchobufError):
        if error.__module__.startswith("echobuf"):
            assert getattr(echobuf, error.__name__, None) is error
