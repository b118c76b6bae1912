"""The paced loops of the benchmarks: time in a put or a draw is never free."""

from itertools import accumulate

import pytest

from scripts import BENCH, importable

US = 1e-6
OVERSHOOT_S = 60 * US


@pytest.fixture
def pacing(monkeypatch):
    with importable(monkeypatch, BENCH) as load:
        yield load("pacing")


class Clock:
    """A clock that only sleeps and calls move; each sleep overshoots."""

    def __init__(self, pacing):
        self.now = 0.0
        self.pace = lambda: pacing.PacedWork(self, self.sleep)

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        assert seconds > 0
        self.now += seconds + OVERSHOOT_S

    def pass_by(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(pacing):
    return Clock(pacing)


def near(units, unit_s):
    """So much for each unit, and what the last sleep overshot."""
    return pytest.approx(units * unit_s, abs=1.001 * OVERSHOOT_S)


@pytest.mark.parametrize("work_us", [20, 150, 2000])
@pytest.mark.parametrize("call_us", [0, 50, 199, 201, 5000])
def test_work_and_calls_add_up_whatever_sleeps_overshoot(clock, work_us, call_us):
    pace = clock.pace()
    for _ in range(1000):
        pace.work(work_us * US)
        clock.pass_by(call_us * US)
    assert clock.now == near(1000, (work_us + call_us) * US)


def test_works_of_different_length_begin_where_the_last_one_should_have_ended(clock):
    pace = clock.pace()
    works = [0, 100 * US, 10 * US, 0, 10 * US, 10 * US, 1000 * US]
    for work, due in zip(works, accumulate(works), strict=True):
        pace.work(work)
        assert due - 1e-12 <= clock.now <= due + OVERSHOOT_S + 1e-12


class Served:
    """Batches whose draws take their time; puts, too."""

    def __init__(self, clock, count=0, draw_s=0.0, put_s=0.0):
        self.clock, self.count, self.draw_s, self.put_s = clock, count, draw_s, put_s
        self.closed = False

    def __iter__(self):
        for _ in range(self.count):
            self.clock.pass_by(self.draw_s)
            yield range(32)

    def put(self, example):
        self.clock.pass_by(self.put_s)

    def close(self):
        self.closed = True


@pytest.mark.parametrize("added_us", [0, 50])
def test_time_of_draws_is_in_the_time_of_the_training_loop(pacing, clock, added_us):
    batches = Served(clock, 1000, draw_s=added_us * US)
    step = pacing.Step(600 * US, clock.pace())
    assert pacing.train(batches, step) == 32 * 1000
    assert clock.now == near(1000, (600 + added_us) * US)


@pytest.mark.parametrize("added_us", [0, 50])
def test_time_of_puts_is_in_the_time_of_the_filling_loop(pacing, clock, added_us):
    buffer = Served(clock, put_s=added_us * US)
    pacing.fill(pacing.Upstream([150 * US] * 1000, clock.pace), buffer)
    assert buffer.closed
    assert clock.now == near(1000, (150 + added_us) * US)
