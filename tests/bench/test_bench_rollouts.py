"""The benchmark of windows of rollouts draws what was put, however that comes."""

import sys

import pytest

from scripts import BENCH, importable

SETTINGS = {"floats": 40, "window": 64, "batch": 8, "factor": 2, "rollouts": 200}


@pytest.fixture
def windows(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH.parent / "examples" / "rollouts"))
    with importable(monkeypatch, BENCH) as load:
        yield load("peers.rollout_windows")
    sys.modules.pop("generators", None)


@pytest.mark.parametrize("name", ["Window", "ThreadedWindow", "GeneratedWindow"])
def test_a_round_uses_each_rollout_as_often_as_the_factor_says(windows, name):
    candidate = getattr(windows, name)(SETTINGS)
    candidate.warm_up()
    assert candidate.run() == SETTINGS["rollouts"]
    stats = candidate.buffer.stats()
    assert stats.served == 2 * SETTINGS["rollouts"] + SETTINGS["window"]
    candidate.close()


def test_a_round_of_a_loader(windows):
    candidate = windows.Loader(SETTINGS)
    candidate.warm_up()
    assert candidate.run() == SETTINGS["rollouts"]
    candidate.close()


@pytest.mark.parametrize("prefetch", [0, 2])
def test_uses_are_counted_where_the_last_batch_is_short(windows, prefetch):
    found = windows.uses({**SETTINGS, "rollouts": 203, "prefetch": prefetch})
    assert found == {"rollouts": 203, "uses": {2: 203}}


def test_candidates_are_found(windows, monkeypatch):
    with importable(monkeypatch, BENCH) as load:
        question = load("rollouts").QUESTION
    ours = [c for c in question.candidates if c.target.startswith("peers.rollout")]
    assert len(ours) == 4
    assert all(hasattr(windows, c.target.partition(":")[2]) for c in ours)
