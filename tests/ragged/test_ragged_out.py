"""`out=` of `next_batch` where leaves are ragged: memory of the caller's, with room."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_records import feed as feed_rows
from packed_records import make as make_rows
from packed_records import packings
from ragged_records import PAD, SPEC, cases, check, example, make, put_all

import echobuf
from echobuf import Field, Packed, Padded, Ragged
from equal_arrays import assert_equal
from helpers import WAIT_S, Worker

pytestmark = pytest.mark.contract


def padded(kwargs):
    return kwargs.get("ragged") == "padded"


def memory(kwargs, room, rows, order="C"):
    """Arrays that nothing was written to; `rows`: of each ragged leaf."""
    strided = 2 if order == "strided" else 1

    def empty(shape, dtype):
        array = np.empty((shape[0] * strided, *shape[1:]), dtype)[::strided]
        array.view(f"V{array.itemsize}")[...] = b"\x55" * array.itemsize
        return array

    out = {"id": empty((room,), np.int64)}
    for name, length in zip(("tokens", "points"), rows, strict=True):
        rest = SPEC[name].shape[1:]
        if padded(kwargs):
            values = empty((room, length, *rest), SPEC[name].dtype)
            out[name] = Padded(values, empty((room,), np.int64))
        else:
            values = empty((length, *rest), SPEC[name].dtype)
            out[name] = Ragged(values, empty((room + 1,), np.int64))
    return out


def rows_of(batch, kwargs):
    axis = 1 if padded(kwargs) else 0
    return [batch[name].values.shape[axis] for name in ("tokens", "points")]


def trimmed(batch, wanted, kwargs):
    """A batch as it would be without `out`; what lies beyond must be padding."""
    whole = dict(batch)
    for name in ("tokens", "points"):
        values, index = batch[name]
        longest = rows_of(wanted, kwargs)[name == "points"]
        pad = (kwargs.get("pad_value") or {}).get(name, 0)
        rest = values[:, longest:] if padded(kwargs) else values[longest:]
        assert (rest == pad).all()
        kept = values[:, :longest] if padded(kwargs) else values[:longest]
        whole[name] = type(batch[name])(kept, index)
    return whole


def same(one, other):
    for name in SPEC:
        pairs = (
            zip(one[name], other[name], strict=True)
            if name != "id"
            else [(one["id"], other["id"])]
        )
        for left, right in pairs:
            assert left.dtype == right.dtype
            assert_equal(left, right)


@settings(max_examples=60)
@given(cases(), st.data())
def test_batches_are_those_that_are_drawn_without_out(case, data):
    kwargs, lengths = case
    with make(kwargs) as plain, make(kwargs) as buffer:
        feeding = [
            Worker(
                lambda each=each: (
                    put_all(each, range(len(lengths)), lengths, [3]),
                    each.close(),
                )
            )
            for each in (plain, buffer)
        ]
        while True:
            try:
                wanted = plain.next_batch(timeout=WAIT_S)
            except StopIteration:
                break
            count, rows = len(wanted["id"]), rows_of(wanted, kwargs)
            room = kwargs.get("batch_size", count + data.draw(st.integers(0, 3)))
            more = data.draw(st.tuples(st.integers(0, 9), st.integers(0, 9)))
            order = data.draw(st.sampled_from(["C", "strided"]))
            short = data.draw(st.sampled_from([None, 0, 1]))
            if short is not None and rows[short] > 0:
                few = [*rows]
                few[short] -= 1
                name = ("tokens", "points")[short]
                said = f"`out['{name}'].values` has {few[short]} rows on axis"
                with pytest.raises(echobuf.SpecError, match=re.escape(said)) as info:
                    buffer.next_batch(memory(kwargs, room, few), timeout=WAIT_S)
                assert f"the next batch has {rows[short]}." in str(info.value)
            out = memory(
                kwargs, room, [a + b for a, b in zip(rows, more, strict=True)], order
            )
            got = buffer.next_batch(out=out, timeout=WAIT_S)
            if "max_rows" not in kwargs:
                assert (got is out) == (count == room)
            assert np.shares_memory(got["id"], out["id"]) or not count
            whole = trimmed(got, wanted, kwargs)
            check(whole, kwargs)
            same(whole, wanted)
        with pytest.raises(StopIteration):
            buffer.next_batch(timeout=WAIT_S)
        assert buffer.stats().served == plain.stats().served
        for each in feeding:
            each.result()


@settings(max_examples=40)
@given(packings(), st.booleans())
def test_packed_rows_are_those_that_are_drawn_without_out(case, strided):
    kwargs, lengths = case
    rows, length = kwargs["batch_size"], kwargs["pack_to"]
    step = 2 if strided else 1
    with make_rows(kwargs) as plain, make_rows(kwargs) as buffer:
        feeding = [Worker(feed_rows, each, lengths, [4]) for each in (plain, buffer)]
        for wanted in iter(lambda: next(plain, None), None):
            names = list(wanted)
            ids = [
                np.full((rows * step, length), -1, np.int32)[::step],
                np.full((rows, length), -1, np.int32),
                np.full(rows, -1, np.int64),
            ]
            out = {}
            for name in names:
                values = wanted[name].values
                empty = np.empty((rows, length, *values.shape[2:]), values.dtype)
                out[name] = Packed(empty, *ids)
            got = buffer.next_batch(out=out, timeout=WAIT_S)
            count = len(wanted[names[0]].lengths)
            assert (got is out) == (count == rows)
            for name in names:
                for one, other in zip(got[name], wanted[name], strict=True):
                    assert_equal(one, other)
        assert next(buffer, None) is None
        for each in feeding:
            each.result()


def filled(count, kwargs):
    buffer = echobuf.EchoBuffer(SPEC, **kwargs)
    for number in range(count):
        buffer.put(example(number, (3, number % 4)))
    buffer.close()
    return buffer


KWARGS = {"batch_size": 4, "window": 8, "factor": 2, "payload_bytes": 400}


def test_a_batch_of_another_form_is_refused():
    out = memory(KWARGS, 4, (20, 20))
    with filled(8, KWARGS) as buffer:
        pair = out["tokens"]
        for leaf, said in [
            (
                pair.values,
                "`out['tokens']` is of type ndarray; it must be an `echobuf."
                "Ragged(values, offsets)`",
            ),
            (Padded(*pair), "`out['tokens']` is of type Padded"),
            (
                Ragged(pair.values.astype("i8"), pair.offsets),
                "`out['tokens'].values` has dtype int64; the spec says int32",
            ),
            (
                Ragged(pair.values, pair.offsets[:-1].copy()),
                "`out['tokens'].offsets` has shape [4]; it must be [5]",
            ),
            (Ragged(pair.values, pair.offsets.astype("i4")), "has dtype int32"),
            (Ragged(pair.values[:, None], pair.offsets), "has shape [20, 1]"),
            (Ragged(None, pair.offsets), "is of type NoneType"),
            (Ragged(np.int32(3), pair.offsets), "has shape []"),
            (Ragged(pair.values, out["points"].offsets), "overlaps"),
        ]:
            with pytest.raises(echobuf.SpecError, match=re.escape(said)):
                buffer.next_batch(out={**out, "tokens": leaf})
        pair.values.flags.writeable = False
        with pytest.raises(echobuf.SpecError, match="read-only"):
            buffer.next_batch(out=out)
        pair.values.flags.writeable = True
        assert buffer.stats().served == 0, "nothing was drawn"
        assert buffer.next_batch(out=out) is out
        assert buffer.next_batch(out={**out, "tokens": tuple(pair)})["tokens"] == pair


def test_too_few_rows_lose_nothing_with_a_state_in_between():
    """Batches that are assembled ahead, too."""
    for prefetch in (0, 2):
        kwargs = {**KWARGS, "prefetch": prefetch}
        with filled(8, kwargs) as whole:
            ids = [batch["id"].tolist() for batch in whole]
        with filled(8, kwargs) as buffer:
            first = buffer.next_batch()["id"].tolist()
            with pytest.raises(echobuf.SpecError, match="The next call draws the same"):
                buffer.next_batch(out=memory(kwargs, 4, (2, 20)))
            state = buffer.state_dict()
            rest = [batch["id"].tolist() for batch in buffer]
        assert [first, *rest] == ids
        again = echobuf.EchoBuffer(SPEC, **kwargs)
        with again:
            again.load_state_dict(state)
            for number in range(state["fresh_offset"], 8):
                again.put(example(number, (3, number % 4)))
            again.close()
            assert [batch["id"].tolist() for batch in again] == rest


def test_with_max_rows_the_memory_has_room_for_any_number_of_examples():
    kwargs = {"max_rows": 9, "window": 8, "factor": 2, "payload_bytes": 400}
    with filled(8, kwargs) as buffer:
        with pytest.raises(echobuf.SpecError, match="`out` has room for 1 examples"):
            buffer.next_batch(out=memory(kwargs, 1, (20, 20)))
        served = 0
        out = memory(kwargs, 8, (9, 9))
        while served < 16:
            got = buffer.next_batch(out=out)
            count = len(got["id"])
            assert len(got["tokens"].offsets) == count + 1
            assert got["tokens"].values is out["tokens"].values
            assert got["tokens"].offsets[-1] == 3 * count
            served += count
        with pytest.raises(StopIteration):
            buffer.next_batch(out=out)


def test_windows_of_ragged_leaves_are_fixed_leaves_of_out():
    windows = {"tokens": [echobuf.transforms.CenterWindow(2)]}
    kwargs = {"batch_size": 2, "window": 4, "factor": 1, "device": "cpu"}
    spec = {"tokens": Field((None,), np.int32, max_length=5)}
    with echobuf.EchoBuffer(spec, transform=windows, **kwargs) as buffer:
        for number in range(4):
            buffer.put({"tokens": np.full(number + 2, number, np.int32)})
        buffer.close()
        out = {"tokens": np.empty((2, 2), np.int32)}
        seen = []
        for _ in range(2):
            assert buffer.next_batch(out=out) is out
            assert (out["tokens"][:, 0] == out["tokens"][:, 1]).all()
            seen += out["tokens"][:, 0].tolist()
    assert sorted(seen) == [0, 1, 2, 3]


def test_results_of_functions_that_are_ragged_are_not_copied_to_out():
    chain = {"tokens": [echobuf.transforms.Lambda(lambda leaf: leaf)]}
    spec = {"tokens": Field((None,), np.int32, max_length=5)}
    kwargs = {"batch_size": 1, "window": 2, "factor": 1}
    with echobuf.EchoBuffer(spec, transform=chain, **kwargs) as buffer:
        buffer.put({"tokens": np.ones(2, np.int32)})
        buffer.close()
        out = {"tokens": Ragged(np.empty(5, np.int32), np.empty(2, np.int64))}
        with pytest.raises(echobuf.OptionError, match="whose results are ragged"):
            buffer.next_batch(out=out)
        assert buffer.next_batch()["tokens"].offsets.tolist() == [0, 2]


def test_leaves_of_packed_rows_share_their_ids():
    spec = {name: Field((None,), np.int32) for name in ("a", "b")}
    kwargs = {"batch_size": 2, "window": 4, "factor": 1, "pack_to": 6}
    rows = np.arange(4, dtype=np.int32)
    with echobuf.EchoBuffer(spec, **kwargs) as buffer:
        for _ in range(4):
            buffer.put({"a": rows, "b": -rows})
        buffer.close()

        def ids():
            return [
                np.empty((2, 6), np.int32),
                np.empty((2, 6), np.int32),
                np.empty(2, np.int64),
            ]

        values = [np.empty((2, 6), np.int32) for _ in spec]
        shared = ids()
        apart = {"a": Packed(values[0], *shared), "b": Packed(values[1], *ids())}
        with pytest.raises(echobuf.SpecError, match="give the same array"):
            buffer.next_batch(out=apart)
        views = [each[:] for each in shared]
        out = {"a": apart["a"], "b": Packed(values[1], *views)}
        assert buffer.next_batch(out=out) is out
        assert (values[0] == -values[1]).all()
        assert shared[2].tolist() == [4, 4]
        batch = buffer.next_batch()
        with pytest.raises(StopIteration):
            buffer.next_batch(out=batch)


def test_a_batch_that_was_drawn_may_be_drawn_into():
    kwargs = {**KWARGS, "ragged": "padded", "pad_to": 8, "pad_value": PAD}
    with filled(12, kwargs) as plain, filled(12, kwargs) as buffer:
        out = buffer.next_batch()
        same(out, next(plain))
        for wanted in plain:
            assert buffer.next_batch(out=out) is out
            same(out, wanted)


def test_tensors_are_drawn_into():
    torch = pytest.importorskip("torch")
    kwargs = {**KWARGS, "device": "cpu"}
    with filled(8, kwargs) as plain, filled(8, kwargs) as buffer:
        wanted = next(plain)
        out = {
            "id": torch.empty(4, dtype=torch.int64),
            "tokens": Ragged(
                torch.full((40,), 5, dtype=torch.int32),
                torch.empty(5, dtype=torch.int64),
            ),
            "points": Ragged(
                torch.empty(40, 3, dtype=torch.uint8), torch.empty(5, dtype=torch.int64)
            ),
        }
        assert buffer.next_batch(out=out) is out
        assert out["id"].tolist() == wanted["id"].tolist()
        total = int(out["tokens"].offsets[-1])
        assert out["tokens"].values[:total].tolist() == wanted["tokens"].values.tolist()
        assert not out["tokens"].values[total:].any()


def test_rows_of_no_bytes_are_no_special_case():
    spec = {"x": Field((None,), np.int8, max_length=4)}
    kwargs = {"batch_size": 2, "window": 2, "factor": 1}
    with echobuf.EchoBuffer(spec, **kwargs) as buffer:
        for _ in range(2):
            buffer.put({"x": np.zeros(0, np.int8)})
        buffer.close()
        out = {"x": Ragged(np.empty(0, np.int8), np.full(3, 7, np.int64))}
        assert buffer.next_batch(out=out) is out
        assert out["x"].offsets.tolist() == [0, 0, 0]
        assert math.prod(out["x"].values.shape) == 0
