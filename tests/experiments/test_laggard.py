"""Echoes times batch size: the steps, the rows that they are made with, the search."""

import numpy as np
import pytest

SEEDS = (3, 4)
POPULATION = 10**12  # so large that no row is drawn twice


@pytest.fixture
def parts(load):
    """The modules by their names."""
    names = ("problem", "echoes", "descent", "tuning")
    return {name: load(f"laggards.{name}") for name in names}


@pytest.fixture
def problem(parts):
    return parts["problem"].make(512)


def test_the_optimum_is_the_least_loss(problem, parts):
    weights = np.zeros((len(SEEDS), parts["problem"].FEATURES, 3), np.float32)
    losses = problem.losses(weights)
    assert losses == pytest.approx(np.log(2))
    assert problem.optimum < np.log(2)
    rates = np.full(3, 2.0, np.float32)
    everything = [np.stack([part] * len(SEEDS)) for part in _data(problem)]
    for _ in range(200):
        parts["descent"].descend(weights, *everything, rates, 10)
        losses, before = problem.losses(weights), losses
        assert (losses <= before + 1e-6).all()
    assert (losses >= problem.optimum - 1e-6).all()
    assert losses == pytest.approx(problem.optimum, rel=2e-3)


def _data(problem):
    return problem.features, problem.labels


@pytest.mark.parametrize("echoes", [1, 2, 7])
def test_k_steps_on_a_batch_are_k_steps(problem, parts, echoes):
    descend, chance = parts["descent"].descend, np.random.default_rng(0)
    rates = np.array([0.1, 0.5, 2.0], np.float32)
    start = chance.standard_normal((len(SEEDS), 54, 3)).astype(np.float32)
    rows = chance.integers(512, size=(len(SEEDS), 16))
    batch = problem.features[rows], problem.labels[rows]
    at_once, one_by_one = start.copy(), start.copy()
    descend(at_once, *batch, rates, echoes)
    for _ in range(echoes):
        descend(one_by_one, *batch, rates, 1)
    np.testing.assert_array_equal(at_once, one_by_one)
    for seed in range(len(SEEDS)):
        for index, rate in enumerate(rates):
            expected = start[seed, :, index].astype(np.float64)
            x, y = batch[0][seed].astype(np.float64), batch[1][seed]
            for _ in range(echoes):
                gradient = x.T @ (1 / (1 + np.exp(-x @ expected)) - y) / len(y)
                expected -= rate * gradient
            found = at_once[seed, :, index]
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_each_batch_is_fresh_and_stepped_on_k_times(parts):
    echoes = parts["echoes"]
    found = echoes.groups(echoes.Cell("batch", 8, 5), POPULATION, SEEDS)
    seen = []
    for number in range(1, 7):
        group = next(found)
        assert (group.fresh, group.steps, len(group.batches)) == (8 * number, 5, 1)
        seen.append(group.batches[0])
    rows = np.concatenate(seen, axis=1)
    assert len(np.unique(rows)) == rows.size


@pytest.mark.parametrize(("count", "segments"), [(1, 1), (2, 1), (4, 1), (3, 8)])
def test_examples_come_k_times_and_not_before_they_were_put(parts, count, segments):
    echoes = parts["echoes"]
    cell = echoes.Cell("example", 8, count, segments)
    found = echoes.groups(cell, POPULATION, SEEDS)
    segment = 8 * segments
    seen, fresh = [], []
    while len(fresh) < 4 * segments * count:
        group = next(found)
        assert (group.steps, len(group.batches)) == (1, count)
        seen += group.batches
        fresh.append(group.fresh)
    assert fresh[0] <= count * segment
    assert set(np.diff(fresh)) <= {k * segment for k in range(count + 1)}
    for seed, number in enumerate(SEEDS):
        put = np.random.default_rng(number)
        stream = np.concatenate(
            [
                put.integers(POPULATION, size=segment)
                for _ in range(fresh[-1] // segment)
            ]
        )
        drawn = np.stack([batch[seed] for batch in seen])
        assert np.isin(drawn, stream).all()
        assert all(len(np.unique(batch)) == 8 for batch in drawn)
        rows, uses = np.unique(drawn, return_counts=True)
        assert uses.max() <= count
        gone = stream[: fresh[-1] - cell.window]
        assert (uses[np.isin(rows, gone)] == count).all()
        assert np.isin(gone, rows).all()


@pytest.mark.parametrize("unit", ["batch", "example"])
def test_tuned_rates_reach_the_target_with_other_seeds(
    problem, parts, monkeypatch, unit
):
    tuning = parts["tuning"]
    monkeypatch.setattr(tuning, "ABOVE", 1.05)
    cell = parts["echoes"].Cell(unit, 64, 4)
    rate = tuning.tuned_rate(problem, cell)
    found = tuning.reached(problem, cell, rate)
    assert len(found) == tuning.GROUPS
    assert all(group.fresh % 64 == 0 and group.steps % 4 == 0 for group in found)
    assert found == tuning.reached(problem, cell, rate)
    slow = tuning.reached(problem, cell, rate / 64, most_fresh=found[0].fresh)
    assert all(group.fresh == float("inf") for group in slow)


def test_the_whole_of_it_writes_figures_and_a_picture(
    load, parts, monkeypatch, tmp_path
):
    script = load("laggard")
    monkeypatch.setattr(parts["tuning"], "ABOVE", 1.05)
    monkeypatch.setattr(script, "make", lambda: parts["problem"].make(256))
    script.main(["--batches", "64", "--echoes", "1", "2", "--out", str(tmp_path)])
    assert (tmp_path / "laggard.json").stat().st_size
    assert (tmp_path / "laggard.png").read_bytes().startswith(b"\x89PNG")
