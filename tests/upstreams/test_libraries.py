"""Rows of the table of libraries, for those that the tests do not install.

Their items are recorded: the same types, shapes and dtypes.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import echobuf
from libraries import N, loader_of, rows, served
from upstream_checks import PAGE, run

torch = pytest.importorskip("torch")
data = torch.utils.data


class OneByOne:
    """A dataset of a map's style, whose items a function makes."""

    def __init__(self, item):
        self._item = item

    def __len__(self):
        return N

    def __getitem__(self, i):
        if i >= N:
            raise IndexError(i)
        return self._item(i)


def test_what_is_mapped_begins_anew_and_has_a_length():
    mapped = run("More libraries", {})["Mapped"](range(3), float)
    assert list(mapped) == list(mapped) == [0.0, 1.0, 2.0]
    assert len(mapped) == 3


def test_each_row_has_a_test():
    here = Path(__file__)
    slow = here.parents[1] / "slow" / "frameworks" / "test_libraries_run.py"
    texts = [path.read_text() for path in (here, slow)]
    found = rows()
    assert len(found) == 27
    for name in found:
        called = re.compile(rf'(served|loader_of)\(\s*"{name}"')
        assert any(called.search(text) for text in texts)


def test_versions_are_those_that_the_tests_install():
    requirements = PAGE.parents[1] / "requirements-libraries.txt"
    pins = re.findall(r"^(.*?)(?:\[.*\])?==(.*)$", requirements.read_text(), re.M)
    assert len(pins) > 15
    for name, version in pins:
        assert f"\n| {name} {version} |".lower() in PAGE.read_text().lower()


def test_braindecode():
    windows = OneByOne(lambda i: (np.zeros((3, 50), np.float32), i, [0, 0, 50]))
    served("braindecode", {"windows": windows}, lambda batch: batch[1])


class SetsItselfBack:
    """DALI's iterator, which is its own iterator, and gives one list a batch."""

    def __iter__(self):
        self._batches = iter(torch.arange(N).split(5))
        return self

    def __next__(self):
        numbers = next(self._batches)
        return [{"x": torch.zeros(len(numbers), 3), "id": numbers[:, None]}]


def test_dali():
    served("DALI", {"iterator": SetsItselfBack()}, lambda batch: batch["id"])


def test_lerobot():
    def frame(i):
        number = torch.tensor(i)
        state = torch.zeros(3)
        return {"observation.state": state, "frame_index": number, "task": "t"}

    frames = {"frames": OneByOne(frame)}
    served("LeRobot", frames, lambda batch: batch["frame_index"])
    batch = next(iter(loader_of("LeRobot", frames)))
    assert batch["task"] == ["t"] * 4


@dataclass
class Sample:
    key: str
    image: object
    label: object
    label_name: object = None
    restore_key: tuple = ("Webdataset", 3)


def test_energon():
    def sample(i):
        return Sample(f"{i:04}", torch.zeros(3, 8, 8), torch.tensor(i))

    loader = {"energon_loader": OneByOne(sample)}
    served("megatron-energon", loader, lambda batch: batch.label)
    batch = next(iter(loader_of("megatron-energon", loader)))
    assert batch.key == [f"{label:04}" for label in batch.label]
    assert batch.label_name == [None] * 4


def test_pytorch_forecasting():
    def collate(numbers):
        n = len(numbers)
        inputs = {
            "encoder_cat": torch.zeros(n, 6, 0, dtype=torch.int64),
            "encoder_cont": torch.zeros(n, 6, 1),
            "decoder_lengths": torch.full((n,), 2),
            "target_scale": torch.zeros(n, 2),
        }
        return inputs, (torch.tensor(numbers)[:, None].float(), None)

    loader = data.DataLoader(range(N), batch_size=5, collate_fn=collate)
    names = {"data_loader": loader}
    served("pytorch-forecasting", names, lambda batch: batch[1][0])
    _, (_, weights) = next(iter(loader_of("pytorch-forecasting", names)))
    assert weights == [None] * 4


def test_scvi():
    class Cells(data.Dataset):
        def __getitem__(self, numbers):
            n = len(numbers)
            batch = torch.zeros(n, 1, dtype=torch.int64)
            labels = torch.tensor(numbers)[:, None]
            return {"X": torch.zeros(n, 5), "batch": batch, "labels": labels}

    sampler = data.BatchSampler(range(N), 5, drop_last=False)
    loader = data.DataLoader(Cells(), sampler=sampler, batch_size=None)
    served("scvi-tools", {"data_loader": loader}, lambda batch: batch["labels"])


def test_torchgeo():
    def collate(numbers):
        images = torch.tensor(numbers)[:, None, None, None].expand(-1, 2, 8, 8).float()
        bounds = [(slice(0.0, 80.0), slice(0.0, 80.0))] * len(numbers)
        return {"crs": [crs] * len(numbers), "bounds": bounds, "image": images}

    crs = object()
    names = {"data_loader": data.DataLoader(range(N), batch_size=5, collate_fn=collate)}
    served("torchgeo", names, lambda batch: batch["image"][:, 0, 0, 0])
    batch = next(iter(loader_of("torchgeo", names)))
    assert batch["crs"] == [crs] * 4
    assert batch["bounds"] == [(slice(0.0, 80.0), slice(0.0, 80.0))] * 4


class Cells:
    """annbatch's loader, which yields sparse matrices and frames."""

    def __len__(self):
        return N // 4

    def __iter__(self):
        sparse = pytest.importorskip("scipy.sparse")
        for numbers in np.split(np.arange(N), range(4, N, 4)):
            matrix = sparse.csr_matrix(numbers[:, None] * np.ones(3, np.float32))
            labels = Column()
            labels.numbers = numbers
            yield {"X": matrix, "obs": {"label": labels}, "var": None, "index": None}


class Column:
    """A column of a frame of pandas'."""

    def to_numpy(self):
        return self.numbers


def test_annbatch():
    served("annbatch", {"cells": Cells()}, lambda batch: batch["label"])
    with pytest.raises(echobuf.SpecError, match=r"`batch\['X'\]`.*\.toarray\(\)"):
        list(echobuf.EchoLoader(Cells(), batched=True, window=8, factor=1))
