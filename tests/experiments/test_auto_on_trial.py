"""The trial of factor "auto": every example is used, and a run leaves its files."""

import json
import sys

import pytest


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
