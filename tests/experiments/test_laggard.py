"""Echoes times batch size: the steps, and the rows that they are made with."""

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


def test_the_whole_of_it_writes_figures_and_a_picture(
    load, parts, monkeypatch, tmp_path
):
    script = load("laggard")
    monkeypatch.setattr(parts["tuning"], "ABOVE", 1.05)
    monkeypatch.setattr(script, "make", lambda: parts["problem"].make(256))
    script.main(["--batches", "64", "--echoes", "1", "2", "--out", str(tmp_path)])
    assert (tmp_path / "laggard.json").stat().st_size
    assert (tmp_path / "laggard.png").read_bytes().startswith(b"\x89PNG")
