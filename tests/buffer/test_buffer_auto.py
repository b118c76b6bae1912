"""Promise 5, seen from outside: the test decides by hand what upstream delivers."""

from collections import Counter
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from helpers import SPEC, drain, ids_of, on_device, put_what_fits

pytestmark = pytest.mark.contract


def auto_buffer(window: int, batch_size: int, max_factor: int = 8) -> Any:
    options = {"window": window, "batch_size": batch_size, "max_factor": max_factor}
    return echobuf.EchoBuffer(SPEC, factor="auto", seed=3, **options)


def take(buffer: Any, number: int) -> list[int]:
    """The ids of the next batches, which are there without waiting."""
    return [i for _ in range(number) for i in ids_of(buffer.next_batch(timeout=0))]


def available(buffer: Any) -> list[int]:
    """The ids in all batches that are there without waiting."""
    got: list[int] = []
    while buffer.ready():
        got += take(buffer, 1)
    with pytest.raises(TimeoutError):
        buffer.next_batch(timeout=0)
    return got


@pytest.mark.parametrize(
    ("window", "batch", "first"),
    [(64, 8, 16), (64, 32, 32), (100, 64, 64), (50, 3, 13), (8, 8, 8)],
)
def test_the_first_pass_begins_with_a_quarter_and_at_least_a_batch(
    window, batch, first
):
    with auto_buffer(window, batch) as buffer:
        assert put_what_fits(buffer, range(first - 1)) == first - 1
        assert available(buffer) == []
        assert put_what_fits(buffer, [first - 1]) == 1
        assert buffer.ready()
        got = take(buffer, first // batch)
        assert len(set(got)) == len(got)


@pytest.mark.parametrize("ids", [range(0), range(1), range(5), range(13)])
def test_the_first_pass_begins_when_upstream_has_ended(ids):
    with auto_buffer(64, 8) as buffer:
        assert put_what_fits(buffer, ids) == len(ids)
        assert available(buffer) == []
        buffer.close()
        assert sorted(chain.from_iterable(drain(buffer))) == list(ids)


@pytest.mark.parametrize("max_factor", [1, 2, 5])
def test_it_never_waits_while_anything_can_still_be_echoed(max_factor):
    with auto_buffer(64, 8, max_factor) as buffer:
        assert put_what_fits(buffer, range(16)) == 16
        assert Counter(available(buffer)) == dict.fromkeys(range(16), max_factor)
        assert put_what_fits(buffer, range(16, 23)) == 7
        assert available(buffer) == []
        assert put_what_fits(buffer, [23]) == 1
        assert Counter(available(buffer)) == dict.fromkeys(range(16, 24), max_factor)


def test_a_filled_segment_enters_with_the_very_next_pass():
    with auto_buffer(64, 8) as buffer:
        put_what_fits(buffer, range(16))
        seen = set(take(buffer, 1))
        assert put_what_fits(buffer, range(16, 24)) == 8
        assert seen | set(take(buffer, 1)) == set(range(16))
        assert sorted(take(buffer, 3)) == list(range(24))
        assert put_what_fits(buffer, range(24, 31)) == 7
        assert sorted(take(buffer, 3)) == list(range(24))
        assert put_what_fits(buffer, [31]) == 1
        assert sorted(take(buffer, 4)) == list(range(32))


def test_the_oldest_make_room_for_what_upstream_fills():
    with auto_buffer(64, 8) as buffer:
        assert put_what_fits(buffer, range(72)) == 72
        assert sorted(take(buffer, 4)) == list(range(32))
        assert sorted(take(buffer, 4)) == list(range(32, 64))
        # Now a segment a pass: six of eight, and the window and the next one fit.
        assert sorted(take(buffer, 5)) == list(range(32, 72))
        assert put_what_fits(buffer, range(72, 80)) == 8
        assert sorted(take(buffer, 6)) == list(range(32, 80))
        assert put_what_fits(buffer, range(80, 88)) == 8
        assert sorted(take(buffer, 6)) == list(range(40, 88))
        assert put_what_fits(buffer, range(88, 96)) == 8
        assert sorted(take(buffer, 6)) == list(range(48, 96))


def test_what_was_never_served_gets_one_last_pass():
    with auto_buffer(64, 8) as buffer:
        put_what_fits(buffer, range(16))
        seen = take(buffer, 1)
        assert put_what_fits(buffer, range(16, 29)) == 13
        buffer.close()
        rest = list(drain(buffer))
        assert [len(batch) for batch in rest] == [8, 8, 5]
        assert sorted(seen + rest[0]) == list(range(16))
        assert sorted(rest[1] + rest[2]) == list(range(16, 29))


def test_a_batch_interrupted_by_upstream_is_finished_later():
    with auto_buffer(64, 12, max_factor=1) as buffer:
        put_what_fits(buffer, range(16))
        seen = take(buffer, 1)
        assert available(buffer) == []
        fresh = 16
        while not buffer.ready():
            fresh += put_what_fits(buffer, [fresh])
        seen += take(buffer, 1)
        buffer.close()
        assert sorted(seen + [i for batch in drain(buffer) for i in batch]) == list(
            range(fresh)
        )


def effective_factor(buffer: Any, per_batch: float, n: int) -> float:
    """Delivers so many examples a batch, as far as there is room."""
    fresh = served = 0
    due = 0.0
    while fresh < n:
        due += per_batch
        if due >= 1:
            put = put_what_fits(buffer, range(fresh, fresh + int(due)))
            due = due - put if put == int(due) else 1.0
            fresh += put
        if buffer.ready():
            served += len(take(buffer, 1))
    return served / fresh


@pytest.mark.parametrize("speed", [0.5, 1, 2, 3, 6])
def test_the_effective_factor_settles_near_the_ratio_of_upstream(speed):
    windows = 10 if on_device() else 40  # it takes longer there
    with auto_buffer(256, 16) as buffer:
        factor = effective_factor(buffer, 16 / speed, windows * 256)
    assert factor == pytest.approx(max(speed, 1), rel=0.1)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 50),
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=30),
    st.data(),
)
def test_at_any_moment_use_is_even_and_never_too_high(window, most, turns, data):
    batch = data.draw(st.integers(1, window))
    uses: Counter[int] = Counter()
    fresh = 0
    with auto_buffer(window, batch, most) as buffer:
        for puts, takes in turns:
            fresh += put_what_fits(buffer, range(fresh, fresh + puts))
            for _ in range(takes):
                if buffer.ready():
                    uses.update(take(buffer, 1))
            assert max(uses.values(), default=0) <= most
            stats = buffer.stats()
            assert stats.fresh == fresh
            assert stats.served == uses.total()
        buffer.close()
        uses.update(chain.from_iterable(drain(buffer)))
    assert sorted(uses) == list(range(fresh))
    assert max(uses.values(), default=0) <= most
