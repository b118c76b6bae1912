"""The trial of factor "auto": its clock, its figures, and that it runs."""

import json
import sys
from bisect import bisect_right
from fractions import Fraction

import numpy as np
import pytest

from schedule_reference import fixed_capacity, fixed_passes


@pytest.fixture
def trial(load):
    """The script, and through it the modules of the trial."""
    return load("auto_on_trial")


@pytest.fixture
def parts(trial):
    """The modules by name."""
    return {
        name: sys.modules[f"auto_trial.{name}"]
        for name in ("upstreams", "ring", "clock", "hindsight", "measures")
    }


SCENARIOS = (
    "steady, R 2",
    "jumps, R 1, 8, 1",
    "Pareto 1.2, R 4",
    "bursts of 2 windows, R 4",
    "starved, R 2",
    "epochs of 3 windows, R 2",
)


def scenario(parts, name, windows=12):
    shape = parts["upstreams"].Shape(window=64, batch_size=8)
    found = {s.name: s for s in parts["upstreams"].scenarios(shape, windows)}
    return found[name], shape


def slow_fixed(upstream, shape, factor):
    """Return the end of each batch's step, record by record, batch by batch."""
    n = len(upstream.times)
    passes = fixed_passes(shape.window, factor, n)
    capacity = fixed_capacity(shape.window, factor)
    draws = [window for window in passes for _ in window]
    committed, ends, freed = [], [], [(0.0, capacity)]
    now = 0.0

    def make(number):
        """Makes records up to `number`, as soon as there is room for each."""
        while len(committed) < number:
            record = len(committed)
            made = (committed[-1] if committed else 0.0) + upstream.times[record]
            room = next(at for at, limit in freed if record < limit)
            committed.append(max(made, room))

    for at in range(0, len(draws), shape.batch_size):
        batch = draws[at : at + shape.batch_size]
        make(batch[-1][-1] + 1)
        now = max(now, committed[batch[-1][-1]])
        after = draws[at + len(batch)][0] if at + len(batch) < len(draws) else n
        freed.append((now, after + capacity))
        now += len(batch)
        ends.append(now)
    return ends


@pytest.mark.parametrize("name", ["Pareto 1.2, R 4", "bursts of 2 windows, R 4"])
@pytest.mark.parametrize("factor", [1, 2.5, 4, 8])
def test_the_clock_is_that_of_a_simulation_record_by_record(parts, name, factor):
    tried, shape = scenario(parts, name, windows=6)
    upstream = tried.upstreams(3)[0]
    run = parts["clock"].run_fixed(upstream, shape, Fraction(factor))
    assert np.allclose(run.times, slow_fixed(upstream, shape, Fraction(factor)))


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_example_is_used_and_nothing_waits_twice(parts, name):
    tried, shape = scenario(parts, name)
    for upstream in tried.upstreams(1)[:2]:
        n = len(upstream.times)
        run = parts["clock"].run_auto(upstream, shape)
        counts = parts["measures"].uses(run.passes).counts
        assert len(counts) == n
        assert counts.min() >= 1
        assert counts.max() <= shape.max_factor
        assert run.draws[-1] == counts.sum()
        assert run.fresh[-1] == n
        assert run.times[-1] == pytest.approx(run.waited + run.draws[-1])
        least = parts["measures"].least_wait(upstream, n, shape.max_factor)
        assert run.waited >= least - 1e-6


@pytest.mark.parametrize("name", ["steady, R 2", "epochs of 3 windows, R 2"])
def test_the_slowdown_is_that_over_the_best_of_all_fixed_factors(parts, name):
    tried, shape = scenario(parts, name, windows=30)
    trial = parts["hindsight"].try_out(tried, shape, 0)
    worth = 0.5
    value = sum(
        run.fresh[-1] + worth * (run.draws[-1] - run.fresh[-1]) for run in trial.auto
    )
    best = np.inf
    for factor in parts["hindsight"].factors(shape.max_factor):
        runs = [parts["clock"].run_fixed(u, shape, factor) for u in trial.upstreams]
        values = [worth * run.draws + (1 - worth) * run.fresh for run in runs]
        if tried.epochs:
            ratio = value / sum(v[-1] for v in values)
            best = min(best, ratio * sum(run.times[-1] for run in runs))
            continue
        batch = bisect_right(values[0].tolist(), value)  # the first with more
        if batch < len(values[0]):
            rest = (values[0][batch] - value) / np.diff(values[0])[batch - 1]
            best = min(
                best,
                runs[0].times[batch] * (1 - rest) + rest * runs[0].times[batch - 1],
            )
    assert trial.slower[worth] == pytest.approx(trial.time / best - 1, abs=1e-9)


def test_a_run_leaves_its_files(trial, tmp_path, monkeypatch, capsys):
    words = ["--windows", "8", "--seeds", "2", "--only", "R 4", "--virtual"]
    monkeypatch.setattr(sys, "argv", ["auto_on_trial", *words, "--out", str(tmp_path)])
    trial.main()
    written = json.loads((tmp_path / "auto_on_trial.json").read_text())
    assert set(SCENARIOS) & set(written["results"]) == {
        "Pareto 1.2, R 4",
        "bursts of 2 windows, R 4",
    }
    for row in written["results"].values():
        assert len(row["effective_factor"]) == 2
        assert all(0 <= share < 1 for share in row["waited"])
        assert len(row["uses"]) <= 9
    assert (tmp_path / "auto_on_trial.png").stat().st_size > 10_000
    assert "more than 3 % slower" in capsys.readouterr().out
