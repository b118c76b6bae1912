"""Promises and errors of docs/ragged.md, from the page alone."""

import numpy as np
import pytest

import echobuf
from echobuf import EchoBuffer, Field, OptionError, Ragged, SpecError, StateError

pytestmark = [pytest.mark.host, pytest.mark.usefixtures("no_leaked_threads")]

TOKENS = Field((None,), np.int32, max_length=20)
SPEC = {"tokens": TOKENS, "id": Field((), np.int64)}
SMALL = {"window": 8, "factor": 2}


# ---- numbers of rows


@pytest.mark.parametrize("pad_to", [2**40, 2**62, 2**63 - 1])
@pytest.mark.parametrize("form", ["packed", "padded"])
def test_a_batch_that_no_memory_holds_is_refused_with_the_argument(form, pad_to):
    kwargs = {**SMALL, "ragged": form, "pad_to": pad_to, "max_rows": 30}
    with EchoBuffer(SPEC, **kwargs) as buffer:
        buffer.put({"tokens": np.zeros(3, np.int32), "id": 1})
        buffer.close()
        with pytest.raises(echobuf.CapacityError, match=rf"`pad_to`.* {pad_to:,}"):
            buffer.next_batch()


def test_numbers_of_rows_that_no_memory_holds_are_refused():
    with pytest.raises(OptionError, match=f"`max_rows` is {2**62}.*bytes"):
        EchoBuffer(SPEC, **SMALL, max_rows=2**62)
    with pytest.raises(echobuf.CapacityError, match="`pack_to`, which is 1,073,"):
        EchoBuffer(TOKENS, **SMALL, batch_size=100, pack_to=2**30)
    with pytest.raises(OptionError, match=r"`batch_size` is None.*`max_rows`"):
        EchoBuffer(SPEC, **SMALL)


# ---- states


def state_of(**kwargs):
    with EchoBuffer(TOKENS, **SMALL, payload_bytes=1000, **kwargs) as buffer:
        buffer.put_batch([np.full(5, n, np.int32) for n in range(8)])
        buffer.close()
        buffer.next_batch()
        return buffer.state_dict()


@pytest.mark.parametrize(
    ("taken", "here", "said"),
    [
        ({"batch_size": 2}, {"max_rows": 30}, "`batch_size` 2, .*have `max_rows` 30"),
        ({"max_rows": 9}, {"batch_size": 1}, "`max_rows` 9, .*have `batch_size` 1"),
        ({"max_rows": 9}, {"max_rows": 8}, "`max_rows` 9, .*have `max_rows` 8"),
        (
            {"batch_size": 1, "pack_to": 9},
            {"batch_size": 1},
            "`pack_to` 9, but here it is None",
        ),
        (
            {"batch_size": 1},
            {"batch_size": 1, "pack_to": 9},
            "`pack_to` None, but here it is 9",
        ),
        (
            {"batch_size": 1, "pack_to": 9, "overlong": "cut"},
            {"batch_size": 1, "pack_to": 9},
            "`overlong` 'cut', but here it is 'error'",
        ),
    ],
)
def test_a_state_of_other_sizes_is_refused_with_both(taken, here, said):
    state = state_of(**taken)
    kwargs = {**SMALL, "payload_bytes": 1000, **here}
    loader = echobuf.EchoLoader([np.zeros(3, np.int32)], **kwargs)
    with EchoBuffer(TOKENS, **kwargs) as buffer:
        for one in (buffer, loader):
            with pytest.raises(StateError, match=said):
                one.load_state_dict(state)


# ---- what is put


def refused(put, thing):
    """Return the message with which `put` or `put_batch` refuses what it is given."""
    with EchoBuffer(TOKENS, batch_size=2, **SMALL) as buffer:
        with pytest.raises(SpecError) as caught:
            getattr(buffer, put)(thing)
        assert buffer.stats().fresh == 0
    return str(caught.value)


A = np.arange(5, dtype=np.int32)
OFFSETS = np.array([0, 2, 5])
PACKED = echobuf.Packed(A[None], A[None], A[None], np.array([5]))
PADDED = echobuf.Padded(A[None], np.array([5]))


@pytest.mark.parametrize("thing", [Ragged(A, OFFSETS), PADDED, PACKED])
def test_batches_are_no_example(thing):
    said = refused("put", thing)
    assert f"`example` is a {type(thing).__name__}, which holds many examples" in said
    assert "`put_batch`" in said


@pytest.mark.parametrize("thing", [PADDED, PACKED])
def test_padded_batches_are_to_be_given_without_their_padding(thing):
    said = refused("put_batch", thing)
    assert f"`batch` is a {type(thing).__name__}" in said
    assert "`x.to_list()`" in said


def objects():
    array = np.empty(2, object)
    array[:] = [A, A[:2]]
    return array


@pytest.mark.parametrize("make", [objects, lambda: (A[:n] for n in range(3))])
def test_other_containers_are_to_be_made_lists(make):
    """A column of a DataFrame is an array of objects."""
    said = refused("put_batch", make())
    assert "list(x)" in said
    assert "pad" not in said


@pytest.mark.parametrize(
    ("thing", "remedy"),
    [
        (Ragged(A, [0, 2, 5]), "np.asarray(offsets, np.int64)"),
        (Ragged(A, OFFSETS.astype(np.int32)), "offsets.astype(np.int64)"),
        ((A, A), "give two examples as a list: `list(x)`"),
    ],
)
def test_offsets_of_another_type_are_named(thing, remedy):
    said = refused("put_batch", thing)
    assert "`batch.offsets`" in said
    assert remedy in said


def test_a_first_item_that_is_too_long_is_compared_with_the_limit_alone():
    loader = echobuf.EchoLoader([A, A[:2]], batch_size=1, **SMALL, pack_to=4)
    with pytest.raises(
        echobuf.ItemError, match=r"^item 0 .*not fit: .*5 rows; `pack_to` is 4"
    ):
        list(loader)
