"""`max_staleness`: records of old versions are drawn no more."""

import contextlib

import pytest
from expiry_runs import infos_of, make, next_infos, reference, written
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import WAIT_S, example, on_device, options, stack

pytestmark = pytest.mark.contract

VERSIONS = st.lists(st.integers(0, 6), min_size=1, max_size=60)
"""Steps of the version from example to example; now and then an old one comes."""


def versions_of(steps, late):
    """A version for each example: it rises, and each `late`-th is an old one."""
    versions, newest = [], 0
    for number, step in enumerate(steps):
        newest += max(step - 3, 0)
        is_late = number % late == late - 1
        versions.append(max(newest - step, 0) if is_late else newest)
    return versions


def put_versions(buffer, versions, put):
    """Puts what there is room for, and closes after the last; how many are put."""
    while put < len(versions):
        try:
            buffer.put(example(put), timeout=0, version=versions[put])
        except TimeoutError:
            return put
        put += 1
    buffer.close()
    return put


def attempt(buffer):
    """The infos of the next batch; None, if it waits; empty at the end."""
    try:
        return infos_of(buffer.next_batch(timeout=0 if not on_device() else 0.05))
    except TimeoutError:
        return None
    except StopIteration:
        return []


def run(buffer, expected, versions, size):
    """Puts what fits and draws what is there, in turn; checks each batch."""
    put = 0
    expected.ended = False
    while True:
        before, put = put, put_versions(buffer, versions, put)
        for number in range(before, put):
            expected.put(number, versions[number])
        expected.ended = put == len(versions)
        infos = attempt(buffer)
        assert infos == expected.batch(size)
        if infos == []:
            return


@settings(deadline=None, max_examples=120)
@given(options(), st.integers(0, 4), VERSIONS, st.integers(2, 9))
def test_draws_are_those_of_the_reference(kwargs, staleness, steps, late):
    kwargs |= {"max_staleness": staleness, "drop_last": False}
    versions = versions_of(steps, late)
    expected = reference(kwargs, len(versions))
    with make(kwargs) as buffer:
        run(buffer, expected, versions, kwargs["batch_size"])
        stats = buffer.stats()
        assert stats.expired == expected.expired
        assert stats.fresh == len(versions)


def test_all_are_served_if_none_is_too_old():
    kwargs = {"window": 12, "factor": 2, "batch_size": 4, "seed": 3, "max_staleness": 9}
    with make(kwargs) as buffer:
        for number in range(10):
            buffer.put(example(number), version=number)
        buffer.close()
        drawn = [index for batch in buffer for index, _ in infos_of(batch)]
        assert sorted(drawn) == sorted([*range(10)] * 2)
        assert buffer.stats().expired == 0


def test_once_a_version_was_put_older_ones_are_drawn_no_more():
    kwargs = {"window": 8, "factor": 4, "batch_size": 2, "seed": 0, "max_staleness": 1}
    with make(kwargs) as buffer:
        buffer.put_batch(stack(range(6)), version=[0, 0, 1, 1, 2, 2])
        versions = {0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 5: 2}
        for index, _ in next_infos(buffer):
            assert versions[index] >= 1
        buffer.put(example(6), version=3)
        buffer.close()
        drawn = []
        while infos := next_infos(buffer):
            drawn += [index for index, _ in infos]
        assert set(drawn) == {4, 5, 6}
        stats = buffer.stats()
        assert stats.served + stats.expired == 7 * 4


def test_a_version_that_goes_back_is_an_old_record():
    # Of two generators, one is slow: what it brings is as old as its version says.
    kwargs = {"window": 8, "factor": 2, "batch_size": 1, "seed": 0, "max_staleness": 2}
    with make(kwargs) as buffer:
        for number, version in enumerate([5, 4, 2, 5, 3]):
            buffer.put(example(number), version=version)
        buffer.close()
        drawn = [index for batch in buffer for index, _ in infos_of(batch)]
        assert sorted(drawn) == sorted([0, 1, 3, 4] * 2)
        assert buffer.stats().expired == 2


def test_if_everything_has_expired_the_epoch_ends():
    kwargs = {"window": 4, "factor": 2, "batch_size": 2, "seed": 0, "max_staleness": 0}
    with make(kwargs) as buffer:
        buffer.put(example(0), version=9)
        for number in range(1, 4):
            buffer.put(example(number), version=3)
        buffer.close()
        assert next_infos(buffer) == [(0, 0), (0, 1)]
        assert buffer.state_dict()["epoch"] == 1
        assert next_infos(buffer) is None
        assert buffer.stats().expired == 6
        buffer.reset()  # and versions begin again
        buffer.put(example(0), version=1)
        buffer.close()
        assert next_infos(buffer) == [(0, 0), (0, 1)]


def test_a_ring_full_of_old_records_lets_new_ones_in():
    kwargs = {"window": 8, "factor": 4, "batch_size": 4, "seed": 0, "max_staleness": 0}
    with make(kwargs) as buffer:
        buffer.put(example(0), version=1)
        put, drawn = 1, []
        for _ in range(200):  # all that come are too old, and leave by themselves
            try:
                buffer.put(example(put), timeout=0, version=0)
                put += 1
            except TimeoutError:
                with contextlib.suppress(TimeoutError):
                    drawn += infos_of(buffer.next_batch(timeout=0))
        assert put > 50
        buffer.close()
        while infos := next_infos(buffer):
            drawn += infos
        assert drawn == [(0, echo) for echo in range(4)]
        assert buffer.stats().expired == 4 * (put - 1)


@settings(deadline=None, max_examples=40)
@given(options(), st.integers(0, 3), VERSIONS, st.data())
def test_a_state_of_any_batch_goes_on_with_the_next(kwargs, staleness, steps, data):
    kwargs |= {"max_staleness": staleness, "drop_last": False}
    versions = versions_of(steps, 4)
    after = data.draw(st.integers(0, 20))
    with make(kwargs) as buffer:
        put, infos = 0, [()]
        for _ in range(after):
            put = put_versions(buffer, versions, put)
            infos = attempt(buffer)
            if infos == []:
                return
        if infos is None:  # draws of the next batch were taken, by what was put by then
            return
        state = written(buffer.state_dict())
        if state["epoch"] == 1:
            assert attempt(buffer) == []
            return
        with make(kwargs) as second:
            second.load_state_dict(state)
            at = state["fresh_offset"]
            second.put_batch(
                stack(range(at, put)), version=versions[at:put], timeout=WAIT_S
            )
            if put == len(versions):
                second.close()
            batches = None
            while batches != [None, None] and batches != [[], []]:
                batches = [attempt(buffer), attempt(second)]
                assert batches[0] == batches[1]
