"""Tensors that differ in length: packed, padded, nested, and read from DataLoaders."""

import itertools

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import echobuf
import echobuf.torch
import echobuf.transforms as t
from echobuf import Field, Padded, Ragged
from helpers import WAIT_S

pytestmark = pytest.mark.contract

KWARGS = {"window": 32, "factor": 2, "payload_bytes": 4000}


def tokens(number):
    return torch.arange(number, number + number * 7 % 12, dtype=torch.int32)


class Text:
    """A map-style dataset."""

    def __len__(self):
        return 60

    def __getitem__(self, number):
        return {"ids": tokens(number), "label": number}


def columns(examples):
    return {
        "ids": [each["ids"] for each in examples],
        "label": torch.tensor([each["label"] for each in examples]),
    }


def nested_columns(examples):
    ids = [each["ids"] for each in examples]
    ids = torch.nested.nested_tensor(ids, layout=torch.jagged)
    return {**columns(examples), "ids": ids}


def numbers_of(loader, to_list=lambda leaf: leaf.to_list()):
    numbers = []
    for batch in loader:
        for number, ids in zip(
            batch["label"].tolist(), to_list(batch["ids"]), strict=True
        ):
            assert torch.equal(ids, tokens(number))
            numbers.append(number)
    return numbers


WANTED = sorted([*range(60)] * 2)


@pytest.mark.parametrize("ragged", ["packed", "padded", "nested"])
@pytest.mark.parametrize("collate", [columns, nested_columns, list])
def test_a_data_loader_with_ragged_batches(collate, ragged):
    upstream = DataLoader(Text(), batch_size=10, collate_fn=collate, shuffle=True)
    loader = echobuf.torch.EchoLoader(upstream, ragged=ragged, **KWARGS)
    assert len(loader) == 12
    kinds = {"packed": Ragged, "padded": Padded, "nested": torch.Tensor}
    ids = next(iter(loader))["ids"]
    assert type(ids) is kinds[ragged] or ids.is_nested
    to_list = torch.Tensor.unbind if ragged == "nested" else lambda ids: ids.to_list()
    assert sorted(numbers_of(loader, to_list)) == WANTED
    loader.close()


@pytest.mark.parametrize("ragged", ["packed", "padded", "nested"])
@pytest.mark.parametrize("collate", [columns, nested_columns, list])
def test_the_batches_of_a_data_loader_are_echoed_whole(collate, ragged):
    upstream = DataLoader(Text(), batch_size=8, collate_fn=collate)
    kwargs = {**KWARGS, "window": 4, "unit": "batch", "ragged": ragged}
    loader = echobuf.torch.EchoLoader(upstream, **kwargs)
    assert (len(loader), loader.batch_size) == (16, 8)
    to_list = torch.Tensor.unbind if ragged == "nested" else lambda ids: ids.to_list()
    numbers = numbers_of(loader, to_list)
    assert sorted(numbers) == WANTED
    starts = [at for at, number in enumerate(numbers) if number % 8 == 0]
    for begin, end in itertools.pairwise([*starts, len(numbers)]):
        assert numbers[begin:end] == list(range(numbers[begin], numbers[end - 1] + 1))
    loader.close()


def test_examples_are_taken_as_they_are():
    loader = echobuf.torch.EchoLoader(Text(), batch_size=10, **KWARGS)
    assert sorted(numbers_of(loader)) == WANTED
    batch = next(iter(loader))
    assert batch["ids"].values.dtype == torch.int32
    assert batch["ids"].offsets.dtype == torch.int64
    loader.close()


def test_a_nested_tensor_lies_over_the_memory_of_the_batch():
    loader = echobuf.torch.EchoLoader(Text(), batch_size=10, ragged="nested", **KWARGS)
    ids = next(iter(loader))["ids"]
    assert ids.layout == torch.jagged
    assert ids.offsets().dtype == torch.int64
    assert ids.values().data_ptr() % 64 == 0  # of echobuf's blocks
    offsets = ids.offsets().tolist()
    for i, each in enumerate(ids.unbind()):
        begin = ids.values().data_ptr() + 4 * offsets[i]
        assert len(each) == 0 or each.data_ptr() == begin
    loader.close()


def test_padded_tensors_have_a_mask():
    loader = echobuf.torch.EchoLoader(
        Text(), batch_size=10, ragged="padded", pad_value=-1, pad_to=8, **KWARGS
    )
    for batch in loader:
        ids = batch["ids"]
        assert ids.values.shape[1] % 8 == 0
        assert ids.mask.dtype == torch.bool
        assert torch.equal(ids.mask.sum(1), ids.lengths)
        assert (ids.values[~ids.mask] == -1).all()


@pytest.mark.parametrize("form", ["examples", "lists", "nested"])
def test_types_that_numpy_lacks_are_carried(form):
    rows = [torch.arange(n * 2).reshape(n, 2).bfloat16() + n for n in range(12)]
    upstream, batched = rows, form != "examples"
    if form == "lists":
        upstream = [rows[at : at + 4] for at in range(0, 12, 4)]
    elif form == "nested":
        upstream = [
            torch.nested.nested_tensor(rows[at : at + 4], layout=torch.jagged)
            for at in range(0, 12, 4)
        ]
    loader = echobuf.torch.EchoLoader(
        upstream,
        batch_size=None if batched else 4,
        batched=batched,
        window=8,
        factor=1,
        payload_bytes=900,
    )
    served = {len(each): each for batch in loader for each in batch.to_list()}
    assert len(served) == 12
    for row in rows:
        assert served[len(row)].dtype == torch.bfloat16
        assert torch.equal(served[len(row)], row)


def test_types_that_numpy_lacks_are_padded_with_zeros_alone():
    rows = [torch.ones(n).bfloat16() for n in range(1, 9)]
    kwargs = {"batch_size": 4, "window": 8, "factor": 1, "payload_bytes": 900}
    loader = echobuf.torch.EchoLoader(rows, ragged="padded", **kwargs)
    for batch in loader:
        assert batch.values[batch.mask].sum() == batch.lengths.sum()
        assert (batch.values[~batch.mask] == 0).all()
    loader = echobuf.torch.EchoLoader(rows, ragged="padded", pad_value=1, **kwargs)
    with pytest.raises(echobuf.OptionError, match=r"`pad_value` is 1.*bfloat16"):
        iter(loader)


def test_pad_to_makes_no_sense_of_nested_tensors():
    with pytest.raises(echobuf.OptionError, match="`pad_to` is 8"):
        echobuf.torch.EchoLoader(
            Text(), batch_size=2, ragged="nested", pad_to=8, **KWARGS
        )


def test_a_named_leaf_may_be_nested():
    loader = echobuf.torch.EchoLoader(
        Text(), batch_size=10, ragged={"ids": "nested", "label": None}, **KWARGS
    )
    assert sorted(numbers_of(loader, torch.Tensor.unbind)) == WANTED


def test_a_buffer_takes_tensors_and_nested_tensors():
    spec = Field((None, 2), np.float32, max_length=9)
    rows = [torch.full((n, 2), float(n)) for n in (3, 0, 5)]
    kwargs = {"batch_size": 8, "window": 8, "factor": 1}
    with echobuf.EchoBuffer(spec, **kwargs) as buffer:
        buffer.put(rows[0])
        buffer.put_batch(rows[1:])
        buffer.put_batch(torch.nested.nested_tensor(rows, layout=torch.jagged))
        padded = torch.stack([torch.zeros(4, 2), torch.ones(4, 2)])
        gaps = torch.nested.narrow(
            padded, 1, torch.tensor([0, 1]), torch.tensor([1, 2]), torch.jagged
        )
        buffer.put_batch(gaps)
        buffer.close()
        batch = buffer.next_batch(timeout=WAIT_S)
    wanted = [*rows, *rows, torch.zeros(1, 2), torch.ones(2, 2)]
    got = [each.tolist() for each in batch.to_list()]
    assert sorted(got) == sorted(each.tolist() for each in wanted)


def test_a_nested_tensor_is_of_many_examples():
    spec = Field((None,), np.float32, max_length=9)
    nested = torch.nested.nested_tensor([torch.zeros(2)], layout=torch.jagged)
    with echobuf.EchoBuffer(spec, batch_size=1, window=2) as buffer:
        with pytest.raises(echobuf.SpecError, match="use `put_batch`"):
            buffer.put(nested)
        turned = torch.nested.nested_tensor(
            [torch.zeros(2, 3)], layout=torch.jagged
        ).transpose(1, 2)
        with pytest.raises(echobuf.SpecError, match="ragged axis is not axis 1"):
            buffer.put_batch(turned)
        assert buffer.stats().fresh == 0


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_attention_over_packed_sequences_is_that_of_each():
    """A nested tensor needs no mask."""
    loader = echobuf.torch.EchoLoader(
        [torch.randn(n % 7 + 1, 8) for n in range(20)],
        batch_size=5,
        ragged="nested",
        window=20,
        factor=1,
        payload_bytes=9000,
    )
    attend = torch.nn.functional.scaled_dot_product_attention
    for batch in loader:
        heads = batch.unflatten(-1, [2, 4]).transpose(1, 2)
        whole = attend(heads, heads, heads).transpose(1, 2)
        for one, got in zip(batch.unbind(), whole.unbind(), strict=True):
            alone = one.unflatten(-1, [2, 4]).transpose(0, 1)
            wanted = attend(alone, alone, alone).transpose(0, 1)
            torch.testing.assert_close(got, wanted)


class Weighted(Text):
    """Weights of each token, and another leaf whose lengths differ from theirs."""

    def __getitem__(self, number):
        example = super().__getitem__(number)
        length = len(example["ids"])
        weight = torch.linspace(0, 1, length)
        return {**example, "weight": weight, "other": torch.ones(number % 4)}


@pytest.mark.host  # on a device it would wait for the lengths
@pytest.mark.parametrize("collate", [None, list])
def test_nested_leaves_of_equal_lengths_have_one_shape(collate):
    data = Weighted()
    upstream, kwargs = data, {**KWARGS, "batch_size": 10}
    if collate is not None:
        upstream = DataLoader(data, 6, collate_fn=collate)
    loader = echobuf.torch.EchoLoader(upstream, ragged="nested", **kwargs)
    for batch in loader:
        ids, weight, other = batch["ids"], batch["weight"], batch["other"]
        product = ids * weight
        parts = (each.unbind() for each in (ids, weight, product))
        for one, two, both in zip(*parts, strict=True):
            assert torch.equal(one * two, both)
        lengths = [len(each) for each in ids.unbind()]
        assert lengths == [len(each) for each in weight.unbind()]
        same = [len(each) for each in other.unbind()] == lengths
        assert same == (other.offsets() is ids.offsets())


def test_nested_leaves_of_one_source_have_one_shape():
    mask = [t.TokenMask(mask_token=99, vocab_size=100, p=0.5)]
    transform = {"ids": mask, "whole": [t.Source("ids")]}
    loader = echobuf.torch.EchoLoader(
        Text(), batch_size=10, ragged="nested", transform=transform, **KWARGS
    )
    for batch in loader:
        changed = (batch["ids"] != batch["whole"]).values()
        assert changed.shape == batch["ids"].values().shape
    loader.close()
