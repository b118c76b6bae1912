"""Batches of a DataLoader, and errors that its dataset raises."""

import traceback

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("jax")

import torch
from torch.utils.data import DataLoader, Dataset

import echobuf
import echobuf.torch
from test_item_errors import KWARGS, every_loader
from test_loader import Numbers

pytestmark = pytest.mark.usefixtures("no_leaked_threads")


class Images(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, index):
        return torch.full((4, 3), float(index)), index


@every_loader
@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
def test_every_loader_takes_batches_of_a_data_loader(make, stateful):
    kind = DataLoader
    if stateful:
        data = pytest.importorskip("torchdata.stateful_dataloader")
        kind = data.StatefulDataLoader
    loader = make(kind(Images(), batch_size=8), window=16, factor=2)
    assert len(loader) == 5
    images, labels = next(iter(loader))
    assert (images.shape, labels.shape) == ((8, 4, 3), (8,))
    assert np.array_equal(np.asarray(images)[:, 0, 0], np.asarray(labels))
    assert len(list(loader)) == 5


@every_loader
def test_a_data_loader_without_batches_yields_examples(make):
    upstream = DataLoader(Images(), batch_size=None)
    loader = make(upstream, batch_size=8, window=16, factor=2)
    assert len(loader) == 5
    images, _ = next(iter(loader))
    assert images.shape == (8, 4, 3)
    nested = make(DataLoader(Images(), 5), batched=False, batch_size=2, factor=1)
    images, _ = next(iter(nested))
    assert images.shape == (2, 5, 4, 3)


# ---- errors of upstream


class Failing(Images):
    def __init__(self, error):
        self.error = error

    def __getitem__(self, index):
        if index == 9:
            raise self.error
        return super().__getitem__(index)


def test_an_error_in_a_data_loader_s_worker_is_one_short_line():
    error = KeyError("no key")
    upstream = DataLoader(Failing(error), batch_size=4, num_workers=1)
    loader = echobuf.torch.EchoLoader(upstream, window=8, factor=1)
    with pytest.raises(echobuf.UpstreamError) as caught:
        list(loader)
    text, cause = str(caught.value), caught.value.__cause__
    name = type(error).__name__
    assert text == (
        f"upstream failed: {name}: Caught {name} in DataLoader worker process 0. "
        "... KeyError: 'no key'"
    )
    assert type(cause) is type(error)
    assert "Original Traceback (most recent call last):\n" in str(cause)
    shown = "".join(traceback.format_exception(caught.value))
    assert "in __getitem__\n" in shown
    assert r"\n" not in shown


def test_one_of_several_lines_is_cut_to_its_ends():
    upstream = DataLoader(Failing(ValueError("one\ntwo\n\nthree ")), batch_size=4)
    with pytest.raises(echobuf.UpstreamError) as caught:
        list(echobuf.EchoLoader(upstream, window=8, factor=1))
    assert str(caught.value) == "upstream failed: ValueError: one ... three"
    assert str(caught.value.__cause__) == "one\ntwo\n\nthree "


def test_one_of_one_line_is_shown_as_it_is():
    with pytest.raises(echobuf.UpstreamError) as caught:
        list(echobuf.EchoLoader(Numbers(9, fail_at=4), **KWARGS))
    assert str(caught.value) == "upstream failed: ValueError('no example 4')"
