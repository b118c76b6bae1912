"""The paced loops of the benchmarks: time in a put or a draw is never free."""

import threading
from itertools import accumulate
from types import SimpleNamespace

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


def test_slowed_items_come_so_much_later(pacing, clock):
    def ticking():
        clock.pass_by(US)
        return clock()

    began = []
    for item in pacing.SlowedIterable("abc", 50 * US, ticking):
        began.append((item, round(clock.now / (50 * US))))
    assert began == [("a", 1), ("b", 2), ("c", 3)]


def test_the_no_op_candidate_reads_all_of_upstream_and_serves_all_draws(pacing):
    read, before = [], threading.active_count()
    for _ in range(2):
        upstream = (read.append(number) for number in range(100))
        assert len(list(pacing.no_op_batches(upstream, 7))) == 7
    assert read == [*range(100)] * 2
    assert threading.active_count() == before


class Costly:
    """A stand-in for the module `time`: a clock with given readings."""

    def __init__(self, *readings):
        self.readings = iter(readings)

    def perf_counter(self):
        return next(self.readings)


@pytest.mark.parametrize(
    ("delay_s", "step_s", "harness_s"), [(0.25, 0.5, 0.5), (0.25, 0.75, 0.375)]
)
def test_the_harness_costs_what_is_beyond_the_work_of_the_slower_side(
    monkeypatch, pacing, delay_s, step_s, harness_s
):
    monkeypatch.setattr(pacing, "time", Costly(10.0, 13.0))
    monkeypatch.setattr(pacing.PacedWork, "work", lambda self, seconds: None)
    upstream = pacing.Upstream([delay_s] * 4)
    assert pacing.harness_s(upstream, 2, step_s) == harness_s


@pytest.mark.parametrize("added_us", [0, 50])
def test_time_of_handing_on_is_in_the_time_of_a_paced_upstream(
    monkeypatch, clock, added_us
):
    """The upstream of the GPU's benchmarks: its sleep is a condition's wait."""

    class Waits(threading.Condition):
        def wait(self, timeout=None):
            assert timeout is not None, "its clock goes all the time here"
            clock.sleep(timeout)

    chunks = []

    def hand_on(chunk):
        chunks.append(list(chunk["number"]))
        clock.pass_by(added_us * US)
        if len(chunks) == 1000:
            raise EOFError

    with importable(monkeypatch, BENCH / "gpu") as load:
        paced = load("paced")
        monkeypatch.setattr(paced, "time", SimpleNamespace(perf_counter=clock))
        waiting = SimpleNamespace(Condition=Waits, Thread=threading.Thread)
        monkeypatch.setattr(paced, "threading", waiting)
        upstream = paced.Paced({"number": range(8)}, 4, hand_on, 150 * US / 4)
        upstream.join()
    assert isinstance(upstream.error, EOFError)
    assert clock.now == near(1000, (150 + added_us) * US)
