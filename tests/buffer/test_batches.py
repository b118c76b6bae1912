"""Batches belong to the caller; their memory is used again; `out=` writes into it."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import echobuf
from helpers import (
    SPEC,
    WAIT_S,
    WORDS,
    Worker,
    drain,
    expected_batches,
    expected_draws,
    feed,
    ids_of,
    options,
    pump,
    stack,
)

pytestmark = pytest.mark.contract

KWARGS = {"batch_size": 8, "window": 32, "factor": 2, "seed": 5, "drop_last": False}


def filled(n, spec=SPEC, **kwargs):
    """A closed buffer that holds examples 0 ... n-1, all of them resident."""
    buffer = echobuf.EchoBuffer(spec, **{**KWARGS, **kwargs})
    buffer.put_batch(stack(range(n)), timeout=WAIT_S)
    buffer.close()
    return buffer


def out_for(batch_size):
    return {
        "id": np.full(batch_size, -1),
        "body": (
            np.zeros((batch_size, WORDS), np.uint64),
            np.zeros((batch_size, 3, 1), np.uint8),
        ),
    }


def leaves(batch):
    return [batch["id"], *batch["body"]]


# ---- ownership


@settings(deadline=None, max_examples=40)
@given(options(), st.integers(1, 90))
def test_held_batches_stay_as_they_were_drawn(kwargs, n):
    held = []
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        producer = Worker(feed, buffer, range(n), [7])
        held += buffer
        producer.result()
    assert [ids_of(batch) for batch in held] == expected_batches(kwargs, n)


SURE = [(2, 0), (2, 2), (2.5, 0), (2.5, 2), ("auto", 0)]
"""Factor and `prefetch` for which the order does not depend on timing."""


@pytest.mark.parametrize(("factor", "prefetch"), SURE)
def test_changing_a_batch_changes_nothing_else(factor, prefetch):
    kwargs = {"factor": factor, "prefetch": prefetch, "batch_size": 6}
    with filled(32, **kwargs) as buffer, filled(32, **kwargs) as untouched:
        for batch, expected in zip(buffer, untouched, strict=True):
            assert ids_of(batch) == ids_of(expected)
            for leaf in leaves(batch):
                assert leaf.flags.writeable
                assert leaf.flags.c_contiguous
                leaf.view(np.uint8)[...] = 0xA5


def test_no_two_batches_in_hand_share_memory():
    with filled(32) as buffer:
        held = [leaf for batch in buffer for leaf in leaves(batch)]
    for at, one in enumerate(held):
        assert not any(np.shares_memory(one, other) for other in held[:at])


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_leaf_outlives_the_rest_of_its_batch_and_the_buffer(prefetch):
    with filled(16, prefetch=prefetch) as buffer:
        batch = next(buffer)
        kept = batch["body"][0][3:]
        expected = kept.copy()
        del batch
        others = [ids_of(other) for other in buffer]
    del buffer
    again = filled(16, seed=9)
    others += [ids_of(other) for other in again]
    np.testing.assert_array_equal(kept, expected)


# ---- memory


@pytest.mark.parametrize("prefetch", [0, 3])
@pytest.mark.parametrize("factor", [1, 3, 2.5, "auto"])
def test_memory_does_not_grow(factor, prefetch):
    kwargs = {**KWARGS, "factor": factor, "prefetch": prefetch}
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        sizes = [buffer.stats().bytes_host]
        producer = Worker(feed, buffer, range(3000), [17, 0, 40])
        for batch in buffer:  # held while the next is drawn, as loops do it
            sizes.append(buffer.stats().bytes_host)
            assert len(batch["id"]) <= 8
        producer.result()
    # Beside those made ahead: two in hand, one being made, few in reserve.
    assert max(sizes) <= sizes[0] + (prefetch + 6) * 8 * 400


@pytest.mark.host
def test_batches_once_held_are_given_back():
    with filled(32, factor=8) as buffer:
        before = buffer.stats().bytes_host
        held = list(buffer)
        assert buffer.stats().bytes_host == before, "what is held is the caller's"
        size = sum(leaf.nbytes for leaf in leaves(held[0]))
        assert len(held) > 10
        del held
        kept = buffer.stats().bytes_host - before
        assert size <= kept <= 3 * size


# ---- tails


@settings(deadline=None, max_examples=60)
@given(options(), st.integers(0, 60))
def test_a_tail_is_short_or_left_out(kwargs, n):
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        got = list(pump(buffer, range(n), [9]))
    draws = len(expected_draws(kwargs, n))
    whole, rest = divmod(draws, kwargs["batch_size"])
    tail = [rest] if rest and not kwargs["drop_last"] else []
    assert [len(batch) for batch in got] == [kwargs["batch_size"]] * whole + tail


# ---- out=


def strided(batch_size):
    whole = out_for(2 * batch_size)
    return {"id": whole["id"][::2], "body": tuple(x[::-2] for x in whole["body"])}


def fortran(batch_size):
    whole = out_for(batch_size)
    return {"id": whole["id"], "body": tuple(map(np.asfortranarray, whole["body"]))}


def tensors(batch_size):
    torch = pytest.importorskip("torch")
    return {
        "id": torch.zeros(batch_size, dtype=torch.int64),
        "body": (
            torch.zeros(batch_size, WORDS, dtype=torch.uint64),
            torch.zeros(3, batch_size, 1, dtype=torch.uint8).transpose(0, 1),
        ),
    }


@pytest.mark.parametrize("kind", [out_for, strided, fortran, tensors])
@pytest.mark.parametrize(("factor", "prefetch"), SURE)
def test_out_gets_the_same_batches(kind, factor, prefetch):
    kwargs = {"factor": factor, "batch_size": 7, "prefetch": prefetch}
    with filled(31, **kwargs) as buffer, filled(31, **kwargs) as plain:
        for expected in map(ids_of, plain):
            out = kind(7)
            got = buffer.next_batch(out=out, timeout=WAIT_S)
            assert (got is out) == (len(expected) == 7)
            for part, whole in zip(leaves(got), leaves(out), strict=True):
                assert type(part) is type(whole)
                assert len(part) == len(expected)
                assert np.shares_memory(np.asarray(part), np.asarray(whole))
                assert not np.asarray(whole)[len(expected) :].clip(0).any()
            arrays = {
                "id": np.asarray(got["id"]),
                "body": tuple(map(np.asarray, got["body"])),
            }
            assert ids_of(arrays) == expected
        with pytest.raises(StopIteration):
            buffer.next_batch(out=kind(7), timeout=WAIT_S)


def read_only(out):
    out["body"][0].flags.writeable = False
    return out


SHARED = np.zeros(8 * WORDS, np.uint64)
BAD_OUTS = {
    "read-only": (read_only(out_for(8)), "`out['body'][0]` is read-only"),
    "missing": ({"id": np.zeros(8, "i8")}, "`out` has another structure"),
    "list": ({**out_for(8), "id": [0] * 8}, "`out"),
    "none": ({**out_for(8), "id": None}, "`out"),
    "short": (out_for(7), "`out['"),
    "long": (out_for(9), "`out['"),
    "dtype": ({**out_for(8), "id": np.zeros(8, "i4")}, "`out['id']`.*int32.*int64"),
    "endian": ({**out_for(8), "id": np.zeros(8, ">i8")}, "`out['id']`.*>i8"),
    "itself": ({**out_for(8), "id": as_strided(np.zeros(8, "i8"), (8,), (4,))}, "over"),
    "bcast": (
        {**out_for(8), "id": np.broadcast_to(np.zeros(1, "i8"), 8)},
        "`out['id",
    ),
    "others": (
        {
            "id": SHARED.view("i8")[8:16],
            "body": (SHARED.reshape(8, WORDS), out_for(8)["body"][1]),
        },
        "`out.*overlaps `out",
    ),
    "masked": (
        {**out_for(8), "id": np.ma.zeros(8, "i8")},
        "`out['id']` is a masked array",
    ),
    "grad": (lambda: {**out_for(8), "id": needs_grad(8)}, "`out['id']`"),
}


def needs_grad(n):
    return pytest.importorskip("torch").zeros(n, requires_grad=True)


@pytest.mark.parametrize("case", BAD_OUTS)
@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_out_that_does_not_fit_is_refused_and_costs_nothing(case, prefetch):
    out, says = BAD_OUTS[case]
    if callable(out):
        out = out()
    before = [np.array(leaf) for leaf in leaves(out_for(8))]
    with filled(16, prefetch=prefetch) as buffer, filled(16) as untouched:
        with pytest.raises(echobuf.SpecError, match=re.sub(r"([\[\]])", r"\\\1", says)):
            buffer.next_batch(out=out, timeout=WAIT_S)
        if case == "read-only":
            for leaf, old in zip(leaves(out), before, strict=True):
                np.testing.assert_array_equal(leaf, old)
        assert list(drain(buffer)) == list(drain(untouched))


def test_an_array_that_has_shrunk_since_the_last_batch_is_refused():
    out = out_for(8)
    with filled(24) as whole:
        before = len(list(whole))
    with filled(24) as buffer:
        assert buffer.next_batch(out=out, timeout=WAIT_S) is out
        out["id"].resize(1, refcheck=False)
        with pytest.raises(echobuf.SpecError, match="has shape"):
            buffer.next_batch(out=out, timeout=WAIT_S)
        assert len(list(buffer)) == before - 1


def test_a_file_may_be_the_out(tmp_path):
    out = out_for(8)
    out["id"] = np.memmap(tmp_path / "id", np.int64, "w+", shape=8)
    with filled(8) as buffer, filled(8) as same:
        assert buffer.next_batch(out=out, timeout=WAIT_S) is out
        assert ids_of(out) == ids_of(same.next_batch(timeout=WAIT_S))


def test_interleaved_outs_that_share_no_byte_are_taken():
    both = np.zeros((8, 2), np.int64)
    with filled(8) as source:
        expected = [ids_of(batch) for batch in source]
    spec = {"a": echobuf.Field((), "i8"), "b": echobuf.Field((), "i8")}
    with echobuf.EchoBuffer(spec, **KWARGS) as buffer:
        buffer.put_batch({"a": np.arange(8), "b": -np.arange(8)})
        buffer.close()
        for ids in expected:
            buffer.next_batch(out={"a": both[:, 0], "b": both[:, 1]}, timeout=WAIT_S)
            assert both.tolist() == [[number, -number] for number in ids]


@pytest.mark.host
@pytest.mark.parametrize("rows", [1, 7, 8, 130])
def test_a_window_that_no_cache_holds_serves_each_record_whole(rows):
    """Such rows are put past the caches, and drawn several at a time."""
    shape, count = (3, 4099), 3000  # no multiple of a line
    spec = {"x": echobuf.Field(shape, np.uint8), "y": echobuf.Field((), np.int64)}
    buffer = echobuf.EchoBuffer(spec, batch_size=rows, window=2800, factor=1, seed=3)
    noise = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    seen = []

    def feed_all():
        for number in range(count):
            buffer.put({"x": noise + np.uint8(number % 251), "y": number})
        buffer.close()

    producer = Worker(feed_all)
    for batch in buffer:
        for x, number in zip(batch["x"], batch["y"], strict=True):
            assert np.array_equal(x, noise + np.uint8(number % 251))
        seen.extend(batch["y"].tolist())
    producer.result()
    assert sorted(seen) == list(range(count))
