"""Measurements on a virtual clock, on which figures are exact."""

import random

import numpy as np
import pytest

import echobuf
from echobuf.analysis import Cluster, Report
from virtual_time import Batches, VirtualClock, measure, step_of

pytestmark = pytest.mark.usefixtures("no_leaked_threads")

SIZE = Batches.SIZE


def measured(upstream, clock, *, step_s=0.01, **kwargs):
    return measure(upstream, step_of(clock, step_s), clock=clock, **kwargs)


def test_times_are_those_of_one_example():
    clock = VirtualClock()
    upstream = Batches(clock, 500, 0.04, startup_s=3.0)
    got = measured(upstream, clock, window=64, max_factor=5)
    assert got.step_s.mean == pytest.approx(0.01 / SIZE)
    assert got.upstream_first_s.mean == pytest.approx(0.04 / SIZE)
    assert got.upstream_second_s.mean == pytest.approx(0.04 / SIZE)
    assert got.upstream_s == got.upstream_second_s
    assert got.startup_s == pytest.approx(3.04)
    # Both threads move the one clock, so there is nothing to overlap.
    assert 0.039 / SIZE < got.together_s.mean < 0.051 / SIZE
    assert (got.batch_size, got.item, got.window, got.max_factor) == (SIZE, SIZE, 64, 5)
    assert got.spec == {"x": echobuf.Field((2,), np.float32)}
    assert not got.one_shot
    assert got.seconds <= 30


def test_a_slow_first_pass_is_told_apart():
    clock = VirtualClock()
    upstream = Batches(clock, 500, lambda turn, number: 0.2 if turn == 1 else 0.02)
    got = measured(upstream, clock, length=500 * SIZE)
    assert got.upstream_first_s.mean == pytest.approx(0.2 / SIZE)
    assert got.upstream_s.mean == pytest.approx(0.02 / SIZE)
    # Several ranks then share what fetching took, and each prepares its own part.
    report = Report(got, Cluster(4, peer_rate=100, shares=[0.5]))
    fetch_s, prepare_s = 0.18 / SIZE, 0.02 / SIZE
    bare, partitioned, _ = (each.loading_s / (500 * SIZE) for each in report.across)
    assert bare == pytest.approx(fetch_s + prepare_s / 4)
    moved_s = 0.5 * 3 / 4 * 0.01
    assert partitioned == pytest.approx(fetch_s / 2 + moved_s + prepare_s / 4)


def test_passes_that_are_cut_are_over_the_same_items():
    clock = VirtualClock()
    upstream = Batches(clock, 10**6, 0.1)
    got = measured(upstream, clock)
    first, second, *_ = upstream.passes
    assert first == second
    assert len(first) < 200
    assert got.length is None
    assert any(f"first {len(first)} items" in note for note in got.notes)


def test_a_short_epoch_is_repeated_and_counted():
    clock = VirtualClock()
    upstream = Batches(clock, 10, 0.001)
    got = measured(upstream, clock)
    assert len(upstream.passes) > 3
    assert got.length == 10 * SIZE
    assert any("repeated" in note for note in got.notes)


@pytest.mark.parametrize(("count", "seconds"), [(1, 1.2), (2, 0.6), (3, 0.5)])
def test_an_epoch_of_few_long_items_is_enough(count, seconds):
    clock = VirtualClock()
    got = measured(Batches(clock, count, seconds), clock)
    assert got.upstream_first_s.mean == pytest.approx(seconds / SIZE)
    assert got.upstream_s.mean == pytest.approx(seconds / SIZE)
    assert got.length == count * SIZE
    if count <= 2:  # there is nothing that it could leave out
        assert got.together_s.mean == pytest.approx((seconds + 0.01) / SIZE)


def test_waiting_for_the_only_batch_is_waiting():
    clock = VirtualClock()
    got = measured(Batches(clock, 1, 1.2), clock)
    assert got.wait_s.mean == pytest.approx(1.2, rel=0.1)


def test_a_second_pass_that_is_far_slower_is_cut():
    clock = VirtualClock()
    upstream = Batches(clock, 500, lambda turn, number: 0.1 if turn == 1 else 300.0)
    got = measured(upstream, clock)
    assert got.upstream_s.mean == pytest.approx(300 / SIZE)


def test_the_time_for_measuring_is_kept_within():
    clock = VirtualClock()
    # 1, 2, 4, ... 512: an interval that does not become narrow
    upstream = Batches(clock, 10**6, lambda turn, number: 0.001 * 2 ** (number % 10))
    got = measured(upstream, clock, seconds=20)
    assert 15 < got.seconds < 25
    assert got.upstream_s.high > got.upstream_s.mean


def test_warm_up_of_the_step_is_left_out():
    clock = VirtualClock()
    calls = []

    def step(batch):
        calls.append(None)
        clock.pass_by(2.0 if len(calls) <= 3 else 0.01)

    got = measure(Batches(clock, 500, 0.04), step, clock=clock)
    assert got.step_s.mean == pytest.approx(0.01 / SIZE)


def test_the_device_is_waited_for():
    clock = VirtualClock()
    queued = []

    def wait():
        clock.pass_by(0.01 * len(queued))
        queued.clear()

    upstream = Batches(clock, 500, 0.04)
    got = measure(upstream, queued.append, clock=clock, synchronize=wait)
    assert got.step_s.mean == pytest.approx(0.01 / SIZE)
    assert not queued


class Listed:
    def __init__(self, clock, items):
        self.clock, self.items = clock, items

    def __iter__(self):
        for item in self.items:
            self.clock.pass_by(0.001)
            yield item


def test_the_resident_batch_is_what_upstream_yields():
    clock, seen = VirtualClock(), []
    first = {"x": np.arange(8.0)}

    def step(batch):
        seen.append(batch)
        clock.pass_by(0.01)

    measure(Listed(clock, [first] * 10), step, clock=clock, seconds=1)
    assert np.array_equal(seen[0]["x"], first["x"])
    assert seen[0]["x"] is not first["x"]  # whose memory upstream may use again


def test_a_step_may_take_from_its_batch_and_add_to_it():
    clock, seen = VirtualClock(), set()

    def step(batch):
        seen.add(tuple(batch))
        batch["sum"] = batch.pop("x") + batch["y"].pop("z")
        clock.pass_by(0.01)

    items = [{"x": np.zeros(SIZE), "y": {"z": np.ones(SIZE)}} for _ in range(20)]
    got = measure(Listed(clock, items), step, clock=clock, seconds=1)
    assert seen == {("x", "y")}
    assert [*items[0], *items[0]["y"]] == ["x", "y", "z"]
    assert any("in place" in note for note in got.notes)


def test_examples_are_put_together_for_the_step():
    clock, lengths = VirtualClock(), set()

    def step(batch):
        lengths.add(batch.shape)
        clock.pass_by(0.01)

    upstream = Listed(clock, [np.zeros(3)] * 100)
    got = measure(upstream, step, batch_size=8, clock=clock, seconds=10)
    assert lengths == {(8, 3), (4, 3)}
    assert (got.item, got.batch_size, got.length) == (1, 8, 100)
    assert got.window == 96  # the epoch, in whole batches


def test_batches_of_another_size_are_made_for_the_step():
    clock, lengths = VirtualClock(), set()

    def step(batch):
        lengths.add(len(batch["x"]))
        clock.pass_by(0.01)

    upstream = Batches(clock, 300, 0.01)
    got = measure(upstream, step, batch_size=6, batched=True, clock=clock)
    assert lengths == {6}
    assert (got.item, got.batch_size) == (SIZE, 6)
    assert got.step_s.mean == pytest.approx(0.01 / 6)


def test_a_step_that_changes_its_batch_is_given_the_same_one_again():
    clock, seen = VirtualClock(), []

    def step(batch):
        seen.append(float(batch["x"][0, 0]))
        batch["x"] += 1
        clock.pass_by(0.01)

    upstream = Listed(clock, [{"x": np.full((SIZE, 2), 7.0)} for _ in range(10)])
    got = measure(upstream, step, clock=clock, seconds=1)
    assert set(seen[:20]) == {7.0}
    assert any("in place" in note for note in got.notes)


@pytest.mark.parametrize("count", [30, 57, 100, 301])
def test_a_one_shot_is_read_once_and_counted_whole(count):
    clock = VirtualClock()
    upstream = Batches(clock, count, 0.1)
    got = measured(iter(upstream), clock, seconds=1000, interval=1e-9)
    assert got.one_shot
    assert len(upstream.passes) == 1
    assert got.length == count * SIZE
    assert got.upstream_second_s is None
    assert got.upstream_first_s.mean == pytest.approx(0.1 / SIZE)
    assert got.step_s.mean == pytest.approx(0.01 / SIZE)


def test_a_one_shot_whose_first_batch_is_larger():
    clock = VirtualClock()

    def batches():
        for number in range(200):
            clock.pass_by(0.1)
            yield np.zeros((4 if number else 8, 2))

    got = measured(batches(), clock, seconds=1000, interval=1e-9)
    assert got.batch_size == 8
    assert got.length == 8 + 199 * 4


def test_a_one_shot_without_an_end():
    clock = VirtualClock()
    got = measured(iter(Batches(clock, 10**9, 0.1)), clock)
    assert got.length is None
    assert got.seconds < 35


@pytest.mark.parametrize("step_s", [0.01, 100.0])
def test_a_one_shot_is_measured_though_no_time_is_left_for_it(step_s):
    """On a machine that is busy all of the time may be used by the first phases."""
    clock = VirtualClock()
    upstream = iter(Batches(clock, 10**9, 50.0))
    got = measured(upstream, clock, step_s=step_s, seconds=1)
    assert got.together_s.count >= 2


def test_a_given_length_takes_precedence():
    clock = VirtualClock()
    assert measured(Batches(clock, 20, 0.1), clock, length=12345).length == 12345


class Shuffled:
    def __init__(self, clock, draw):
        self.clock, self.draw, self.passes = clock, draw, []

    def __iter__(self):
        order = []
        self.passes.append(order)
        for _ in range(200):
            self.clock.pass_by(0.1)
            order.append(self.draw())
            yield np.zeros((SIZE, 2))


@pytest.mark.parametrize("draw", [random.random, np.random.random])
def test_the_second_pass_meets_the_same_examples_and_leaves_no_trace(draw):
    clock = VirtualClock()
    state, legacy = random.getstate(), np.random.get_state()[1].copy()
    upstream = Shuffled(clock, draw)
    measured(upstream, clock)
    first, second, together, *_ = upstream.passes
    assert first == second
    assert together[: len(first)] == first[: len(together)]
    assert random.getstate() == state
    np.testing.assert_array_equal(np.random.get_state()[1], legacy)


def test_a_loaded_machine_is_noted(monkeypatch):
    clock = VirtualClock()
    monkeypatch.setattr("os.getloadavg", lambda: (99.0, 0, 0))
    got = measured(Batches(clock, 100, 0.1), clock)
    assert any("99.0" in note for note in got.notes)
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0, 0))
    got = measured(Batches(clock, 100, 0.1), clock)
    assert not any("load" in note for note in got.notes)


def test_phases_are_told():
    clock, told = VirtualClock(), []
    measured(Batches(clock, 100, 0.1), clock, progress=told.append)
    assert told == [
        "upstream, first pass",
        "step",
        "upstream, second pass",
        "together",
    ]
