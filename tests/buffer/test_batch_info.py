"""`with_info=True` says which uses of which fresh examples a batch is made of."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from echobuf import BatchInfo, OptionError
from helpers import (
    PUT_SIZES,
    SPEC,
    WAIT_S,
    Worker,
    example,
    expected_draws,
    feed,
    ids_of,
    options,
    put_what_fits,
    stack,
)
from schedule_reference import draw_infos

pytestmark = pytest.mark.contract

DTYPES = BatchInfo(np.int64, np.int32, np.int64)
COUNTS = st.integers(0, 150)
AUTO = {"factor": "auto", "window": 24, "batch_size": 5, "max_factor": 4}


def checked(batch, info, version=0):
    """The infos of a batch of the examples with those ids."""
    ids = ids_of(batch)
    assert type(info) is BatchInfo
    for leaf, dtype in zip(info, DTYPES, strict=True):
        assert leaf.dtype == dtype
        assert leaf.shape == (len(ids),)
    assert info.index.tolist() == ids
    assert (info.version == version).all()
    return list(zip(info.index.tolist(), info.echo.tolist(), strict=True))


def infos_left(buffer):
    """The infos of all batches that are left, one after the other."""
    infos = []
    while True:
        try:
            batch = buffer.next_batch(timeout=WAIT_S)
        except StopIteration:
            return infos
        infos += checked(*batch)


def served_with(kwargs, n):
    """The infos of the reference, but for those of a last batch that is left out."""
    infos = draw_infos(expected_draws(kwargs, n))
    if kwargs["drop_last"]:
        del infos[len(infos) // kwargs["batch_size"] * kwargs["batch_size"] :]
    return infos


@settings(deadline=None, max_examples=80)
@given(options(), COUNTS, PUT_SIZES)
def test_infos_are_those_of_the_reference(kwargs, n, sizes):
    with echobuf.EchoBuffer(SPEC, **kwargs, with_info=True) as buffer:
        producer = Worker(feed, buffer, range(n), sizes)
        assert infos_left(buffer) == served_with(kwargs, n)
        producer.result()


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 60),
    st.integers(1, 20),
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=12),
    st.integers(0, 60),
    st.integers(0, 2),
)
def test_with_auto_they_count_the_uses(window, size, most, turns, last, prefetch):
    kwargs = {"factor": "auto", "max_factor": most, "window": window}
    infos, put = [], 0
    with echobuf.EchoBuffer(
        SPEC, batch_size=min(size, window), **kwargs, prefetch=prefetch, with_info=True
    ) as buffer:
        for number, taken in turns:
            put += put_what_fits(buffer, range(put, put + number))
            for _ in range(taken):
                try:
                    infos += checked(*buffer.next_batch(timeout=0))
                except TimeoutError:
                    break
        producer = Worker(feed, buffer, range(put, put + last), [0, 7])
        infos += infos_left(buffer)
        producer.result()
    assert infos == draw_infos(index for index, _ in infos)
    assert {index for index, _ in infos} == set(range(put + last))
    assert all(echo < most for _, echo in infos)


@settings(deadline=None, max_examples=25)
@given(options(), st.integers(1, 80), st.data())
def test_after_a_resume_they_go_on(kwargs, n, data):
    whole = served_with(kwargs, n)
    size = kwargs["batch_size"]
    done = data.draw(st.integers(0, len(whole) // size))
    with echobuf.EchoBuffer(SPEC, **kwargs, with_info=True) as buffer:
        producer = Worker(feed, buffer, range(n), [9])
        for _ in range(done):
            buffer.next_batch(timeout=WAIT_S)
        state = json.loads(json.dumps(buffer.state_dict()))
        if state["epoch"] == 0:
            with echobuf.EchoBuffer(SPEC, **kwargs, with_info=True) as second:
                second.load_state_dict(state)
                first = state["fresh_offset"]
                again = Worker(feed, second, range(first, n), [4])
                assert infos_left(second) == whole[done * size :]
                again.result()
        else:
            assert done * size == len(whole)
        infos_left(buffer)
        producer.result()


def test_after_a_resume_with_auto_uses_are_those_of_before():
    before = []
    with echobuf.EchoBuffer(SPEC, **AUTO, with_info=True) as buffer:
        buffer.put_batch(stack(range(24)))
        for _ in range(7):
            before += checked(*buffer.next_batch(timeout=WAIT_S))
        state = buffer.state_dict()
    with echobuf.EchoBuffer(SPEC, **AUTO, with_info=True) as buffer:
        buffer.load_state_dict(state)
        buffer.put_batch(stack(range(state["fresh_offset"], 24)), timeout=WAIT_S)
        buffer.close()
        after = infos_left(buffer)
    served = before + after
    assert served == draw_infos(index for index, _ in served)
    assert any(echo for _, echo in after)


@pytest.mark.parametrize("factor", [2, 2.5, "auto"])
def test_each_epoch_counts_from_zero(factor):
    kwargs = {**AUTO, "factor": factor, "with_info": True}
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        for _ in range(3):
            producer = Worker(feed, buffer, range(40), [11])
            infos = infos_left(buffer)
            producer.result()
            assert infos == draw_infos(index for index, _ in infos)
            assert {index for index, _ in infos} == set(range(40))
            buffer.reset()


@pytest.mark.parametrize("prefetch", [0, 2])
def test_out_is_a_batch_with_its_info(prefetch):
    kwargs = {"window": 12, "batch_size": 6, "factor": 2, "prefetch": prefetch}
    with echobuf.EchoBuffer(SPEC, **kwargs, with_info=True) as buffer:
        buffer.put_batch(stack(range(12)))
        buffer.close()
        out = buffer.next_batch()
        infos = checked(*out)
        for _ in range(3):
            assert buffer.next_batch(out=out) is out
            infos += checked(*out)
        assert infos == draw_infos(index for index, _ in infos)
        with pytest.raises(StopIteration):
            buffer.next_batch(out=out)


def test_out_must_have_an_info():
    with echobuf.EchoBuffer(SPEC, batch_size=2, window=4, with_info=True) as buffer:
        buffer.put_batch(stack(range(4)))
        batch, info = buffer.next_batch()
        with pytest.raises(echobuf.SpecError):
            buffer.next_batch(out=batch)
        wrong = info._replace(echo=info.echo.astype(np.int64))
        with pytest.raises(echobuf.SpecError, match=r"`out\[1\].*echo"):
            buffer.next_batch(out=(batch, wrong))


def test_of_whole_batches_all_examples_have_the_same():
    spec = {"id": echobuf.Field((4,), np.int64)}
    kwargs = {"unit": "batch", "window": 4, "factor": 2, "with_info": True}
    with echobuf.EchoBuffer(spec, **kwargs) as buffer:
        for number, length in enumerate([4, 3, 4, 0, 1]):
            buffer.put({"id": np.full(length, number)}, version=number + 10)
            if number == 3:
                served = [buffer.next_batch() for _ in range(2)]
        buffer.close()
        served += list(buffer)
    infos = []
    for batch, info in served:
        assert (info.index == batch["id"]).all()
        assert (info.version == batch["id"] + 10).all()
        assert len(info.echo) == len(batch["id"])
        assert len(set(info.echo.tolist())) <= 1
        infos += [(*each,) for each in zip(info.index[:1], info.echo[:1], strict=True)]
    assert len(served) == 10
    assert infos == draw_infos(index for index, _ in infos)


def test_versions_come_back_with_their_examples():
    kwargs = {"window": 8, "batch_size": 4, "factor": 2, "with_info": True}
    versions = {}
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:

        def put(ids, version):
            each = np.broadcast_to(0 if version is None else version, len(ids))
            versions.update(zip(ids, each.tolist(), strict=True))
            buffer.put_batch(stack(ids), timeout=WAIT_S, version=version)

        def produce():
            put(range(6), None)
            buffer.put(example(6), version=5)
            put(range(7, 19), np.arange(12, dtype=np.uint8))
            put(range(19, 40), 2**63 - 1)
            put(range(40, 42), [3, 4])
            put(range(42, 70), None)
            put(range(70, 70), np.array([]))
            buffer.close()

        versions[6] = 5
        producer = Worker(produce)
        seen = {}
        for batch, info in buffer:
            assert ids_of(batch) == info.index.tolist()
            seen.update(zip(info.index.tolist(), info.version.tolist(), strict=True))
        producer.result()
    assert seen == versions


def test_without_info_versions_are_taken_and_batches_are_as_they_were():
    kwargs = {"window": 8, "batch_size": 4, "factor": 1}
    with echobuf.EchoBuffer(SPEC, **kwargs) as buffer:
        buffer.put(example(0), version=1)
        buffer.put_batch(stack(range(1, 8)), version=np.arange(7))
        buffer.close()
        assert sorted(itertools.chain(*map(ids_of, buffer))) == list(range(8))


@pytest.mark.parametrize(
    "version", [-1, 1.5, True, "1", [1], 2**63, np.arange(3.0), np.array(-2)]
)
def test_a_version_that_is_none_is_refused(version):
    with echobuf.EchoBuffer(SPEC, batch_size=2, window=4, with_info=True) as buffer:
        with pytest.raises(OptionError, match="`version` is "):
            buffer.put(example(0), version=version)
        assert buffer.stats().fresh == 0


@pytest.mark.parametrize(
    ("version", "text"),
    [
        (np.arange(2), "`version` has 2 entries, and 3 examples are put"),
        ([1, -1, 0], "`version` has -1 to 1"),
        ([1.5, 0, 0], "`version` is "),
        (np.zeros((3, 1), int), "`version` is "),
        (None, None),
    ],
)
def test_versions_that_are_not_of_the_examples_are_refused(version, text):
    with echobuf.EchoBuffer(SPEC, batch_size=2, window=4, with_info=True) as buffer:
        if text is None:
            buffer.put_batch(stack(range(3)), version=version)
            assert buffer.stats().fresh == 3
            return
        with pytest.raises(OptionError, match=text):
            buffer.put_batch(stack(range(3)), version=version)
        assert buffer.stats().fresh == 0


@pytest.mark.parametrize("value", [1, None, "yes"])
def test_with_info_is_a_bool(value):
    with pytest.raises(OptionError, match="`with_info`"):
        echobuf.EchoBuffer(SPEC, batch_size=2, window=4, with_info=value)


def test_with_pack_to_there_is_no_info():
    spec = echobuf.Field((None,), np.int32)
    kwargs = {"batch_size": 2, "window": 4, "pack_to": 8}
    with pytest.raises(OptionError, match=r"`with_info` is True.*`pack_to`"):
        echobuf.EchoBuffer(spec, **kwargs, with_info=True)


def test_the_order_is_that_without_info_and_so_is_a_state():
    kwargs = {"window": 12, "batch_size": 5, "factor": 2.5, "seed": 9}
    with (
        echobuf.EchoBuffer(SPEC, **kwargs) as plain,
        echobuf.EchoBuffer(SPEC, **kwargs, with_info=True) as told,
    ):
        for buffer in (plain, told):
            buffer.put_batch(stack(range(12)))
        for _ in range(2):
            assert ids_of(plain.next_batch()) == ids_of(told.next_batch()[0])
        assert plain.state_dict() == told.state_dict()
