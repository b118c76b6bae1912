"""Loaders that echo the batches of upstream, with leaves that differ in length."""

import numpy as np
import pytest
from text_batches import FORMS, text

import echobuf
from echobuf import EchoLoader, Padded
from echobuf.loader.loader import internals_of
from echobuf.spec import describe
from equal_arrays import assert_equal

pytestmark = pytest.mark.contract

KWARGS = {"unit": "batch", "window": 6, "factor": 2, "payload_bytes": 4000}
SIZE = 8


PARTS = [[text(n) for n in range(at, min(at + SIZE, 115))] for at in range(0, 115, 8)]
LABELS = [[each["label"] for each in part] for part in PARTS]


def upstream(form="lists"):
    return [FORMS[form](part) for part in PARTS]


def whole(batch):
    """The labels of a batch that is one of upstream's."""
    labels = batch["label"].tolist()
    assert labels in LABELS
    leaf = batch["ids"]
    for number, ids, image in zip(labels, leaf.to_list(), batch["image"], strict=True):
        assert_equal(ids, text(number)["ids"])
        assert (image == number).all()
    return labels


@pytest.mark.parametrize("form", FORMS)
def test_batches_of_upstream_are_echoed_as_they_are(form):
    loader = EchoLoader(upstream(form), seed=8, **KWARGS)
    served = [whole(batch) for batch in loader]
    assert sorted(served) == sorted(LABELS * 2)
    assert len(served) == len(loader) == 30
    assert describe(internals_of(loader).starter.buffer.spec) == (
        "{'ids': int32[8, None], 'image': uint8[8, 2, 3], 'label': int64[8]}"
    )
    again = EchoLoader(upstream("Ragged"), seed=8, **KWARGS)
    assert [whole(batch) for batch in again] == served


@pytest.mark.parametrize("pad_to", [None, 16])
def test_they_may_be_padded(pad_to):
    pads = {"ids": -1, "image": None, "label": None}
    kwargs = {**KWARGS, "ragged": "padded", "pad_to": pad_to, "pad_value": pads}
    loader = EchoLoader(upstream(), **kwargs)
    for batch in loader:
        leaf = batch["ids"]
        assert type(leaf) is Padded
        longest = max(len(text(label)["ids"]) for label in whole(batch))
        step = pad_to or 1
        assert leaf.values.shape[1] == -(-longest // step) * step
        assert (leaf.values[~leaf.mask] == -1).all()


@pytest.mark.parametrize("factor", [3, 1.5])
def test_a_state_goes_on_in_the_middle(factor):
    def make():
        return EchoLoader(upstream(), seed=9, **{**KWARGS, "factor": factor})

    loader, served, states = make(), [], []
    for batch in loader:
        served.append(whole(batch))
        states.append(loader.state_dict())
    for done in range(0, len(states) - 1, 5):
        resumed = make()
        resumed.load_state_dict(states[done])
        assert [whole(batch) for batch in resumed] == served[done + 1 :]


def test_the_next_epoch_may_begin_early():
    loader = EchoLoader(upstream(), overlap_epochs=True, seed=2, **KWARGS)
    plain = EchoLoader(upstream(), seed=2, **KWARGS)
    epochs = [[[whole(b) for b in each] for _ in range(3)] for each in (loader, plain)]
    assert epochs[0] == epochs[1]
    assert epochs[0][0] != epochs[0][1]


def test_auto_serves_each_batch():
    loader = EchoLoader(upstream(), **{**KWARGS, "factor": "auto"})
    served = [whole(batch) for batch in loader]
    assert all(labels in served for labels in LABELS)
    with pytest.raises(TypeError, match="auto"):
        len(loader)


def test_a_fractional_factor_has_no_number_of_batches():
    loader = EchoLoader(upstream(), **{**KWARGS, "factor": 1.5})
    with pytest.raises(TypeError, match="fractional"):
        len(loader)
    assert len(list(loader)) <= loader.max_batches()


def test_a_longer_batch_than_the_first_is_an_item_error():
    items = [FORMS["lists"](PARTS[-1]), FORMS["lists"](PARTS[0])]
    loader = EchoLoader(items, **KWARGS)
    with pytest.raises(echobuf.ItemError, match=r"up to 3.*Only shorter batches fit"):
        list(loader)


def test_a_batch_larger_than_a_share_is_an_error_that_names_both_sizes():
    loader = EchoLoader(upstream(), **{**KWARGS, "payload_bytes": 300})
    with pytest.raises(echobuf.EchobufError, match=r"8 examples has 1\d\d.*is 150"):
        list(loader)


def test_batches_without_a_ragged_leaf_are_refused():
    loader = EchoLoader([np.zeros((4, 2))] * 5, **KWARGS)
    with pytest.raises(echobuf.OptionError, match="no leaf varies"):
        iter(loader)


def padded_to_longest(part, kind):
    """A batch as lhotse makes it: padded to the longest of its own examples."""
    ids = [each["ids"] for each in part]
    longest = max(map(len, ids))
    rows = np.stack([np.pad(each, (0, longest - len(each))) for each in ids])
    return {"ids": kind(rows), "label": np.array([each["label"] for each in part])}


def as_tensor(rows):
    return pytest.importorskip("torch").from_numpy(rows)


@pytest.mark.host
@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, as_tensor])
@pytest.mark.parametrize("unit", ["batch", "example"])
@pytest.mark.parametrize("ragged", ["packed", "padded"])
def test_batches_that_upstream_padded_to_their_own_longest(ragged, unit, kind):
    named = {"ids": ragged, "label": None}
    kwargs = {**KWARGS, "unit": unit, "batched": True, "ragged": named}
    if unit == "example":
        kwargs |= {"batch_size": 4, "window": 24}
    items = [padded_to_longest(part, kind) for part in PARTS]
    expected = {
        label: row.tolist()
        for item in items
        for label, row in zip(item["label"].tolist(), item["ids"], strict=True)
    }
    labels = []
    for batch in EchoLoader(items, **kwargs):
        for label, ids in zip(
            batch["label"].tolist(), batch["ids"].to_list(), strict=True
        ):
            assert ids.tolist() == expected[label]
            labels.append(label)
    assert sorted(labels) == sorted(2 * [*expected])


@pytest.mark.host
def test_named_leaves_that_have_no_rows_and_arrays_of_arrays():
    items = [{"ids": np.arange(4), "label": np.arange(4)}]
    named = {"ids": "packed", "label": None}
    with pytest.raises(
        echobuf.SpecError, match=r"`batch\['ids'\]`.* shape \[4\].*None in"
    ):
        list(EchoLoader(items, ragged=named, **KWARGS))
    rows = np.array(
        [np.arange(n) for n in range(4)], object
    )  # as `datasets` gives them
    items = [{"ids": rows, "label": np.arange(4)}]
    for batch in EchoLoader(items, ragged=named, **KWARGS):
        assert [ids.tolist() for ids in batch["ids"].to_list()] == [
            ids.tolist() for ids in rows
        ]


@pytest.mark.host
@pytest.mark.parametrize("unit", ["batch", "example"])
@pytest.mark.parametrize("kind", [np.asarray, as_tensor])
def test_a_batch_that_is_one_padded_array_has_no_leaf_to_name(unit, kind):
    kwargs = {"window": 3, "factor": 2, "payload_bytes": 10_000, "ragged": "packed"}
    if unit == "example":
        kwargs |= {"batch_size": 4, "window": 12}
    items = [kind(np.full((4, length), length)) for length in (2, 3, 5)]
    served = [
        row.tolist()
        for batch in EchoLoader(items, unit=unit, batched=True, **kwargs)
        for row in batch.to_list()
    ]
    assert sorted(served) == sorted(8 * [[2] * 2, [3] * 3, [5] * 5])
