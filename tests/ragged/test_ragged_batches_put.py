"""Forms in which whole batches with ragged leaves are put, and what is refused."""

import re

import numpy as np
import pyarrow as pa
import pytest
from whole_batches import MOST, spec

import echobuf
from echobuf import Field, Ragged
from helpers import WAIT_S
from opened_states import opened

pytestmark = pytest.mark.contract

KWARGS = {"unit": "batch", "window": 4, "factor": 1, "payload_bytes": 400}
VALUES = np.array([1, 2, 3, 4], np.int32)
OFFSETS = np.array([0, 3, 3, 4])
ARRAYS = [VALUES[:3], VALUES[:0], VALUES[3:]]
TOKENS = Field((3, None), np.int32)
SQUARE = np.arange(6, dtype=np.int32).reshape(3, 2)


def make(of=TOKENS, **kwargs):
    return echobuf.EchoBuffer(of, **{**KWARGS, **kwargs})


def lists():
    return pa.array([[1, 2, 3], [], [4]], pa.list_(pa.int32()))


FORMS = {
    "Ragged": lambda: Ragged(VALUES, OFFSETS),
    "tuple": lambda: (VALUES, OFFSETS),
    "strided": lambda: Ragged(np.repeat(VALUES, 2)[::2], np.repeat(OFFSETS, 2)[::2]),
    "list": lambda: [*ARRAYS],
    "arrow": lists,
    "chunks": lambda: pa.chunked_array([lists()[:1], lists()[1:]]),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_whole_batch_is_put_in_many_forms(form):
    with make() as buffer:
        buffer.put(FORMS[form]())
        buffer.put_batch([FORMS[form]()] * 2)
        buffer.close()
        served = list(buffer)
    assert len(served) == 3
    for batch in served:
        assert [each.tolist() for each in batch.to_list()] == [[1, 2, 3], [], [4]]


def test_examples_of_one_length_may_be_one_array():
    with make() as buffer:
        buffer.put(SQUARE)
        buffer.close()
        batch = buffer.next_batch(timeout=WAIT_S)
    assert batch.offsets.tolist() == [0, 2, 4, 6]
    assert batch.values.tolist() == SQUARE.ravel().tolist()


def test_a_nested_tensor_is_a_whole_batch():
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(array.copy()) for array in ARRAYS]
    with make() as buffer:
        buffer.put(torch.nested.nested_tensor(tensors, layout=torch.jagged))
        buffer.close()
        batch = buffer.next_batch(timeout=WAIT_S)
    assert [each.tolist() for each in batch.to_list()] == [[1, 2, 3], [], [4]]


def whole(count=2, **leaves):
    """A batch of `count` examples, of one row each."""
    ones = np.ones(count, np.int32)
    batch = {
        "id": np.arange(count),
        "tokens": Ragged(ones, np.arange(count + 1)),
        "points": [np.ones((1, 3), np.uint8)] * count,
    }
    return {**batch, **leaves}


REFUSED = {
    "too many examples": (whole(MOST + 1), "shape [5]; the spec says [up to 4]"),
    "another number": (
        whole(tokens=[VALUES]),
        "`example['tokens']` holds 1 examples, but `example['id']` holds 2",
    ),
    "another dtype": (
        whole(tokens=[np.ones(2), np.ones(2)]),
        "`example['tokens'][0]` has dtype float64",
    ),
    "other rows": (whole(points=[np.ones((1, 2), np.uint8)] * 2), "[1, 2]"),
    "offsets that decrease": (
        whole(tokens=(VALUES, np.array([0, 5, 4]))),
        "offsets must not decrease",
    ),
    "offsets that end early": (
        whole(tokens=(VALUES, np.array([0, 1, 3]))),
        "it must end at 4",
    ),
    "lists of numbers": (whole(tokens=[[1, 2], [3]]), "not an array"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_batch_that_does_not_fit_is_refused_and_nothing_is_put(why):
    batch, said = REFUSED[why]
    good = whole()
    several = {name: [good[name], batch[name]] for name in good}
    with make(spec()) as buffer:
        with pytest.raises(echobuf.SpecError, match=re.escape(said)):
            buffer.put(batch)
        of_second = f"batch 1 of those put: .*{re.escape(said)}"
        with pytest.raises(echobuf.SpecError, match=of_second):
            buffer.put_batch(several)
        assert buffer.stats().fresh == 0


def test_more_arrays_than_a_batch_has_are_refused():
    with make() as buffer:
        with pytest.raises(echobuf.SpecError, match=r"holds 4 .* up to 3.*shorter"):
            buffer.put([*ARRAYS, VALUES])
        assert buffer.stats().fresh == 0


def test_one_batch_is_not_for_put_batch():
    with make(spec()) as buffer:
        with pytest.raises(
            echobuf.SpecError, match=r"tokens.*put one batch, use `put`"
        ):
            buffer.put_batch(whole())
        uneven = {name: [leaf] for name, leaf in whole().items()}
        with pytest.raises(echobuf.SpecError, match=r"has 2 batches, but .* has 1"):
            buffer.put_batch({**uneven, "tokens": [VALUES, VALUES]})
        buffer.put_batch({name: [] for name in uneven})
        assert buffer.stats().fresh == 0


def test_a_batch_larger_than_a_share_names_both_sizes():
    with make(spec(), factor=3, window=6) as buffer:
        fits = whole(tokens=[np.zeros(16, np.int32), np.zeros(15, np.int32)])
        buffer.put(fits)  # of 130 bytes, of 133
        large = whole(tokens=[np.zeros(16, np.int32)] * 2)
        for put in (
            lambda: buffer.put(large),
            lambda: buffer.put_batch(
                {name: [fits[name], leaf] for name, leaf in large.items()}
            ),
        ):
            with pytest.raises(echobuf.CapacityError) as caught:
                put()
            said = str(caught.value)
            assert "the batch of 2 examples has 134 bytes" in said
            assert "share of `payload_bytes` is 133: 400 for 3 segments" in said
            assert "at least 402, or put smaller batches" in said
        assert buffer.stats().fresh == 1


def test_max_length_is_of_an_example():
    with make(spec(tokens=3, points=9), payload_bytes=None) as buffer:
        buffer.put(whole(tokens=[VALUES[:3]] * 2))  # six rows together
        with pytest.raises(echobuf.SpecError, match="has 4 rows in its example 1"):
            buffer.put(whole(tokens=[VALUES[:3], VALUES]))
        assert buffer.stats().fresh == 1


def test_what_a_timeout_or_a_close_left_out_is_counted():
    two = {name: [leaf] * 3 for name, leaf in whole().items()}
    with make(spec(), factor=1, window=2, payload_bytes=26) as buffer:
        accepted = 3
        while accepted == 3:
            try:
                buffer.put_batch(two, timeout=0.01)
            except TimeoutError as error:
                accepted = error.accepted
        put = buffer.stats().fresh
        assert 0 < put <= 12
        assert accepted == put % 3
        buffer.close()
        with pytest.raises(echobuf.ClosedError) as closed:
            buffer.put_batch(two)
        assert closed.value.accepted == 0
        assert len(list(buffer)) == put


# ---- specs and arguments


def refused(error, said, of, **kwargs):
    with pytest.raises(error, match=re.escape(said)):
        make(of, **kwargs)


def test_the_batch_axis_comes_before_the_one_that_varies():
    said = "Field((batch_size, None, 3), dtype)"
    refused(echobuf.SpecError, said, Field((None, 3), np.uint8))
    refused(echobuf.SpecError, "of no examples", Field((0, None), np.uint8))
    uneven = {"x": Field((4, None), "i4"), "y": Field((3,), "i4")}
    refused(echobuf.SpecError, "it is the same for all leaves", uneven)
    kwargs = {"unit": "example", "batch_size": 2}
    refused(echobuf.SpecError, "unit='example' only axis 0 may", TOKENS, **kwargs)


@pytest.mark.parametrize("name", ["max_rows", "pack_to"])
def test_what_makes_other_batches_of_them_is_refused(name):
    said = f"`{name}` is 8, but `unit` is 'batch'"
    refused(echobuf.OptionError, said, TOKENS, **{name: 8})


def test_a_row_for_each_segment_and_some_limit_are_needed():
    said = "`payload_bytes` is 11; it must be at least 12"
    refused(echobuf.OptionError, said, TOKENS, payload_bytes=11, factor=3)
    none = {"payload_bytes": None}
    refused(echobuf.OptionError, "`spec` has no `max_length`", TOKENS, **none)
    refused(echobuf.OptionError, "no leaf of `spec`", Field((3,), "i4"))


def test_a_state_is_of_the_same_batches():
    with make() as buffer:
        buffer.put(SQUARE)
        state = buffer.state_dict()
    assert opened(state)["arguments"]["spec"] == "int32[3, None]"
    other = {"of": Field((4, None), np.int32)}, {"payload_bytes": 500}
    for kwargs in other:
        with make(**kwargs) as buffer, pytest.raises(echobuf.StateError):
            buffer.load_state_dict(state)
