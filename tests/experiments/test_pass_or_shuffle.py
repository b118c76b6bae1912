"""Passes against a shuffle buffer: uses, and a run."""

import numpy as np
import pytest


@pytest.fixture
def conditions(load):
    return load("shuffles.conditions")


@pytest.mark.parametrize("factor", [2, 4])
def test_passes_use_each_example_as_often(load, conditions, factor):
    condition = conditions.Condition("passes", factor, 96)
    draws = load("shuffles.orders").draws(400, condition, seed=1)
    assert np.bincount(draws).tolist() == [factor] * 400
    _, apart = load("shuffles.measures").distances(draws)
    assert apart.mean() == pytest.approx(condition.size, rel=0.1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_run_trains_on_every_draw(load, conditions, monkeypatch):
    for module in ("torch", "PIL", "sklearn"):
        pytest.importorskip(module, reason="needs the extra data-echoing[demo]")
    from echobuf.cli.demo.training import Model

    lengths = []
    step = Model.step

    def counted(self, images, labels):
        lengths.append(len(labels))
        step(self, images, labels)

    monkeypatch.setattr(Model, "step", counted)
    accuracy = load("shuffles.accuracy")
    condition = conditions.Condition("passes", 2, 64)
    run = accuracy.Run(condition, 0.05, seed=0, fresh=200)
    first = accuracy.accuracy(run)
    assert sum(lengths) == 2 * 200
    assert set(lengths[:-1]) == {accuracy.BATCH}
    assert 0 < first < 1
    assert accuracy.accuracy(run) == first
