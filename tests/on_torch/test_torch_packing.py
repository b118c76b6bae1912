"""Packed rows as tensors, from examples, DataLoaders and nested tensors."""

import itertools
from collections import Counter

import pytest
import torch
from torch.utils.data import DataLoader

import echobuf
import echobuf.torch

pytestmark = pytest.mark.contract

KWARGS = {"window": 32, "factor": 2, "pack_to": 16, "seed": 1}
LENGTHS = [1 + number * 7 % 13 for number in range(120)]


def tokens(number, dtype=torch.int64):
    return (torch.arange(LENGTHS[number]) + 20 * number).to(dtype)


class Text:
    """A map-style dataset."""

    def __len__(self):
        return len(LENGTHS)

    def __getitem__(self, number):
        return tokens(number)


def nested(examples):
    return torch.nested.nested_tensor(examples, layout=torch.jagged)


def numbers_of(batches):
    numbers = Counter()
    for packed in batches:
        assert type(packed) is echobuf.Packed
        assert all(isinstance(leaf, torch.Tensor) for leaf in packed)
        assert packed.values.shape[1:] == (16,)
        assert packed.segment_ids.dtype == packed.positions.dtype == torch.int32
        assert packed.lengths.dtype == torch.int64
        assert torch.equal((packed.segment_ids > 0).sum(1), packed.lengths)
        for part in packed.to_list():
            number = int(part[0]) // 20
            assert torch.equal(part, tokens(number))
            numbers[number] += 1
    return numbers


WANTED = dict.fromkeys(range(120), 2)


@pytest.mark.parametrize("collate", [list, nested])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_data_loader_of_lists_and_of_nested_tensors(collate, workers):
    upstream = DataLoader(
        Text(), batch_size=10, collate_fn=collate, shuffle=True, num_workers=workers
    )
    kwargs = {**KWARGS, "batch_size": 4}
    with echobuf.torch.EchoLoader(upstream, ragged="packed", **kwargs) as loader:
        assert numbers_of(loader) == WANTED


def test_examples_are_taken_as_they_are_and_the_state_goes_on():
    kwargs = {**KWARGS, "batch_size": 3}
    with echobuf.torch.EchoLoader(Text(), **kwargs) as loader:
        whole = list(loader)
    assert numbers_of(whole) == WANTED
    with echobuf.torch.EchoLoader(Text(), **kwargs) as loader:
        taken = list(itertools.islice(loader, 7))
        state = loader.state_dict()
    with echobuf.torch.EchoLoader(Text(), **kwargs) as loader:
        loader.load_state_dict(state)
        taken += list(loader)
    for got, want in zip(taken, whole, strict=True):
        assert all(map(torch.equal, got, want))


def test_dtypes_that_numpy_lacks_are_packed():
    examples = [tokens(number, torch.bfloat16) for number in range(12)]
    kwargs = {**KWARGS, "batch_size": 2, "factor": 1, "window": 12}
    with echobuf.torch.EchoLoader(examples, **kwargs) as loader:
        parts = [part for batch in loader for part in batch.to_list()]
    assert {part.dtype for part in parts} == {torch.bfloat16}
    firsts = sorted(int(part[0]) for part in parts)
    assert firsts == sorted(int(example[0]) for example in examples)


def test_nested_tensors_are_not_packed():
    with pytest.raises(echobuf.OptionError, match="`pack_to` is 16") as caught:
        echobuf.torch.EchoLoader(Text(), ragged="nested", batch_size=3, **KWARGS)
    assert "nested" in str(caught.value)
