"""`with_info=True` where examples differ in length."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ragged_records import ROW_BYTES, SPEC, cases, check, make, put_all
from ragged_reference import ragged_batches
from whole_batches import batch_cases
from whole_batches import make as make_whole

import echobuf
from helpers import PUT_SIZES, WAIT_S, Worker
from schedule_reference import draw_infos

pytestmark = pytest.mark.contract


def infos_of(info):
    assert type(info) is echobuf.BatchInfo
    assert [leaf.dtype for leaf in info] == [np.int64, np.int32, np.int64]
    assert len({len(leaf) for leaf in info}) == 1
    return list(zip(info.index.tolist(), info.echo.tolist(), strict=True))


def serve(buffer, kwargs, lengths, sizes, *, first=0, note=lambda: None):
    """The infos of all batches that are left, fed by one producer on a thread."""

    def feed():
        put_all(buffer, range(first, len(lengths)), lengths, sizes)
        buffer.close()

    producer = Worker(feed)
    infos = []
    while True:
        try:
            batch, info = buffer.next_batch(timeout=WAIT_S)
        except StopIteration:
            break
        assert check(batch, kwargs) == info.index.tolist()
        infos.append(infos_of(info))
        note()
    producer.result()
    return infos


@settings(max_examples=60, deadline=None)
@given(cases(), PUT_SIZES)
def test_infos_are_those_of_the_reference(case, sizes):
    kwargs, lengths = case
    whole = ragged_batches(kwargs, lengths, ROW_BYTES)
    told = iter(draw_infos(itertools.chain(*whole)))
    expected = [[next(told) for _ in batch] for batch in whole]
    with make({**kwargs, "with_info": True}) as buffer:
        assert serve(buffer, kwargs, lengths, sizes) == expected


@settings(max_examples=15, deadline=None)
@given(cases(), PUT_SIZES, st.randoms(use_true_random=False))
def test_after_a_resume_they_go_on(case, sizes, random):
    kwargs, lengths = case
    kwargs["with_info"] = True
    with make(kwargs) as buffer:
        states = [buffer.state_dict()]
        note = lambda: states.append(buffer.state_dict())  # noqa: E731
        whole = serve(buffer, kwargs, lengths, sizes, note=note)
    done = random.randrange(len(states))
    state = states[done]
    if state["epoch"] == 1:  # all was served
        assert done == len(whole)
        return
    with make(kwargs) as buffer:
        buffer.load_state_dict(state)
        first = state["fresh_offset"]
        assert serve(buffer, kwargs, lengths, sizes, first=first) == whole[done:]


@pytest.mark.parametrize("ragged", ["packed", "padded"])
@pytest.mark.parametrize("size", [{"batch_size": 5}, {"max_rows": 30}])
def test_with_auto_they_count_the_uses(ragged, size):
    kwargs = {"window": 16, "factor": "auto", "max_factor": 3, "payload_bytes": 900}
    kwargs |= {"ragged": ragged, **size}
    lengths = [(number % 7, number % 4) for number in range(70)]
    served = []
    with echobuf.EchoBuffer(SPEC, **kwargs, with_info=True) as buffer:
        put = 0
        for number in (9, 3, 11, 0, 8, 2):
            put_all(buffer, range(put, put + number), lengths, [4, 0])
            put += number
            for _ in range(4):
                try:
                    batch, info = buffer.next_batch(timeout=0)
                except TimeoutError:
                    break
                assert check(batch, kwargs) == info.index.tolist()
                served += infos_of(info)
        served += itertools.chain(*serve(buffer, kwargs, lengths, [6], first=put))
    assert served == draw_infos(index for index, _ in served)
    assert {index for index, _ in served} == set(range(70))
    assert any(echo for _, echo in served)


@settings(max_examples=30, deadline=None)
@given(batch_cases(), PUT_SIZES)
def test_of_whole_batches_all_examples_have_the_same(case, sizes):
    kwargs, batches = case
    expected = draw_infos(batches.ids.index(ids) for ids in batches.expected(kwargs))
    with make_whole(kwargs, with_info=True) as buffer:

        def feed():
            batches.put_all(buffer, range(len(batches)), sizes)
            buffer.close()

        producer = Worker(feed)
        served = []
        for batch, info in buffer:
            ids = batches.check(batch, kwargs)
            assert len(info.index) == len(ids)
            (one,) = set(infos_of(info))
            served.append(one)
        producer.result()
    assert served == expected


@pytest.mark.parametrize("ragged", ["packed", "padded"])
def test_out_is_a_batch_with_its_info(ragged):
    kwargs = {"window": 8, "batch_size": 4, "factor": 2, "payload_bytes": 400}
    kwargs |= {"ragged": ragged}
    lengths = [(number % 3, 2) for number in range(8)]
    with echobuf.EchoBuffer(SPEC, **kwargs, with_info=True) as buffer:
        put_all(buffer, range(8), lengths, [8])
        buffer.close()
        _, info = buffer.next_batch()
        served = infos_of(info)
        packed = ragged == "packed"
        form = echobuf.Ragged if packed else echobuf.Padded
        lead, entries = ((12,), 5) if packed else ((4, 3), 4)
        leaves = {
            name: form(
                np.empty((*lead, *SPEC[name].shape[1:]), SPEC[name].dtype),
                np.empty(entries, np.int64),
            )
            for name in ("tokens", "points")
        }
        empty = echobuf.BatchInfo(*(np.empty(4, leaf.dtype) for leaf in info))
        out = {"id": np.empty(4, np.int64), **leaves}, empty
        for _ in range(3):
            batch, info = buffer.next_batch(out=out)
            assert info.index.tolist() == batch["id"].tolist()
            served += infos_of(info)
    assert served == draw_infos(index for index, _ in served)


def test_versions_come_back_with_their_examples():
    kwargs = {"window": 8, "batch_size": 3, "factor": 2, "payload_bytes": 400}
    with echobuf.EchoBuffer(SPEC, **kwargs, with_info=True) as buffer:

        def produce():
            for number in range(30):
                one = {
                    "id": number,
                    "tokens": np.zeros(number % 4, np.int32),
                    "points": np.zeros((1, 3), np.uint8),
                }
                buffer.put(one, version=number * number)
            batch = {
                "id": np.arange(30, 33),
                "tokens": [np.zeros(2, np.int32)] * 3,
                "points": [np.zeros((0, 3), np.uint8)] * 3,
            }
            buffer.put_batch(batch, version=[900, 961, 1024], timeout=WAIT_S)
            with pytest.raises(echobuf.OptionError, match="2 entries, and 3 examples"):
                buffer.put_batch(batch, version=[1, 2])
            buffer.close()

        producer = Worker(produce)
        count = 0
        for batch, info in buffer:
            assert (info.index == batch["id"]).all()
            assert (info.version == batch["id"] ** 2).all()
            count += len(info.index)
        producer.result()
    assert count == 66
