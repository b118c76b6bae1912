"""Leaves of batches that are no arrays: split where they have one for each example."""

import numpy as np
import pytest

import echobuf
from test_carried import KWARGS

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("no_leaked_threads")]


def test_lists_and_arrays_of_texts_in_batches_are_split():
    def batches(make):
        return [
            {
                "id": np.arange(i, i + 3),
                "name": make([f"n{j}" for j in range(i, i + 3)]),
            }
            for i in range(0, 12, 3)
        ]

    for make in (list, tuple, np.array, lambda names: np.array(names, object)):
        loader = echobuf.EchoLoader(batches(make), **KWARGS, batched=True)
        for batch in loader:
            assert batch["name"] == [f"n{i}" for i in np.asarray(batch["id"])]


class Texts:
    """An array of texts as pandas and TensorFlow have them, which NumPy reads."""

    def __init__(self, *texts):
        self._array = np.array(texts, object)
        self.shape = self._array.shape
        self.dtype = type("StringDtype", (), {"name": "string"})

    def __array__(self, dtype=None, copy=None):
        return self._array


@pytest.mark.parametrize("more", [{}, {"unit": "batch", "batch_size": None}], ids=str)
def test_arrays_of_texts_of_other_libraries_are_split(more):
    items = [{"id": np.arange(2), "text": Texts("0", "1")}] * 4
    for batch in echobuf.EchoLoader(items, **{**KWARGS, "batched": True, **more}):
        assert batch["text"] == [*map(str, batch["id"].tolist())]
    whole = [{"id": 0, "text": Texts("0", "1")}]
    (batch, *_) = echobuf.EchoLoader(whole, **KWARGS)
    assert batch["text"][0] is whole[0]["text"]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_fields_of_tuples_come_as_default_collate_leaves_them(size):
    def column(kind, i):
        return tuple(f"{kind}{j}" for j in range(i, i + size))

    batches = [
        [np.arange(i, i + size), [column("s", i), column("t", i)]]
        for i in range(0, 12, size)
    ]
    for ids, (first, second) in echobuf.EchoLoader(batches, **KWARGS, batched=True):
        assert first == [f"s{i}" for i in np.asarray(ids)]
        assert second == [f"t{i}" for i in np.asarray(ids)]


def test_objects_of_a_batch_may_be_arrays_some_of_them():
    masks = [None, np.zeros(3), None, np.zeros(5)] * 3
    batches = [
        {"id": np.arange(i, i + 4), "mask": masks[i : i + 4]} for i in range(0, 12, 4)
    ]
    for batch in echobuf.EchoLoader(batches, **KWARGS, batched=True):
        assert batch["mask"] == [masks[i] for i in np.asarray(batch["id"])]


@pytest.mark.parametrize("unit", ["example", "batch"])
def test_an_array_in_place_of_a_list_of_objects_is_refused(unit):
    names = [list("abcd"), np.arange(4.0)]
    batches = [{"id": np.arange(4), "name": some} for some in names]
    size = {"batch_size": 4} if unit == "example" else {"batch_size": None, "window": 2}
    arguments = {**KWARGS, "batched": True, "unit": unit, **size}
    with pytest.raises(
        echobuf.ItemError, match=r"item 1 of upstream.*`batch\['name'\]"
    ):
        list(echobuf.EchoLoader(batches, **arguments))
