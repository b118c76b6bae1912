"""Predictions against a slow simulation, event by event."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import fmean

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from echobuf.analysis import cost_model, simulation
from echobuf.analysis.prediction import predict
from echobuf.analysis.simulation import Pipeline
from event_simulation import AutoWindow, FixedWindow, simulate
from schedule_reference import ratio

FACTORS = st.sampled_from([1, 2, 3, 5, 8, "3/2", "5/2", "10/3", "17/16"])


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    """Whole times, so that sums are exact."""
    window = draw(st.integers(1, 60))
    return Pipeline(
        upstream_s=float(draw(st.integers(0, 12))),
        step_s=float(draw(st.integers(1, 4))),
        batch_size=draw(st.integers(1, window)),
        window=window,
        max_factor=draw(st.integers(1, 8)),
        item=draw(st.sampled_from([1, 1, 2, 5, window])),
        startup_s=float(draw(st.sampled_from([0, 0, 7, 100]))),
    )


def counts(pipeline: Pipeline) -> st.SearchStrategy[int]:
    """Epochs short enough to be gone through as a whole."""
    return st.integers(1, min(250, simulation.LONGEST * pipeline.window))


def is_taken(pipeline: Pipeline, factor: Fraction) -> bool:
    """Return whether a buffer accepts the factor."""
    if factor.denominator == 1:
        return factor <= pipeline.window
    segment = pipeline.window // math.ceil(factor)
    return pipeline.batch_size <= math.floor(factor) * segment


def simulated(pipeline: Pipeline, factor: Fraction | None, times: list[float]):
    """The mean seconds and draws; of all phases of a fraction with few of them."""
    count = len(times)
    if factor is None:
        windows = [
            AutoWindow(pipeline.window, pipeline.max_factor, pipeline.batch_size, count)
        ]
    else:
        den = factor.denominator
        windows = [
            FixedWindow(pipeline.window, factor, pipeline.batch_size, count, phase)
            for phase in (
                range(den) if den <= simulation.PHASES else simulation.phases(factor)
            )
        ]
    runs = [
        simulate(window, times, pipeline.step_s, pipeline.item, pipeline.startup_s)
        for window in windows
    ]
    return tuple(map(fmean, zip(*runs, strict=True)))


@settings(max_examples=200)
@given(pipelines(), FACTORS, st.data())
def test_an_epoch_with_a_fixed_factor(pipeline, factor, data):
    factor = ratio(factor)
    count = data.draw(counts(pipeline))
    assume(is_taken(pipeline, factor))
    seconds, draws = simulated(pipeline, factor, [pipeline.upstream_s] * count)
    epoch = simulation.simulate(pipeline, factor, count)
    assert epoch.draws == pytest.approx(draws, rel=1e-9)
    assert epoch.seconds == pytest.approx(seconds, rel=1e-9)
    if factor.denominator <= simulation.PHASES:
        assert epoch.draws == pytest.approx(count * factor, rel=1e-9)


@settings(max_examples=200)
@given(pipelines(), st.data())
def test_an_epoch_with_auto(pipeline, data):
    count = data.draw(counts(pipeline))
    seconds, draws = simulated(pipeline, None, [pipeline.upstream_s] * count)
    epoch = simulation.simulate(pipeline, None, count)
    assert epoch.draws == draws
    assert epoch.seconds == pytest.approx(seconds, rel=1e-9)


@pytest.mark.parametrize("factor", [None, 1, 4, Fraction(5, 2)])
@pytest.mark.parametrize("upstream_s", [1.0, 3.0, 20.0])
def test_a_long_epoch_goes_on_as_it_began(factor, upstream_s):
    pipeline = Pipeline(upstream_s, 1.0, batch_size=4, window=32)
    factor = None if factor is None else Fraction(factor)
    count = 32 * 150 + 5
    epoch = simulation.simulate(pipeline, factor, count)
    seconds, draws = simulated(pipeline, factor, [upstream_s] * count)
    assert epoch.seconds == pytest.approx(seconds, rel=0.002)
    assert epoch.draws == pytest.approx(draws, rel=0.002)


def jitter(kind: str, count: int, seed: int) -> np.ndarray:
    """Times with mean 1 in the long run."""
    chance = np.random.default_rng(seed)
    if kind == "uniform":
        return chance.uniform(0, 2, count)
    return (chance.pareto(2.5, count) + 1) * 1.5 / 2.5


@pytest.mark.parametrize("kind", ["uniform", "heavy-tailed"])
@pytest.mark.parametrize(("r", "factor"), [(1, 1), (4, 2), (4, 4), (8, 8), (4, None)])
def test_the_mean_of_upstream_is_enough(kind, r, factor):
    """Also at the knee, where neither side waits on average."""
    times = jitter(kind, 10 * 1024, seed=r)
    pipeline = Pipeline(float(times.mean()), 1 / r, batch_size=32, window=1024)
    factor = None if factor is None else Fraction(factor)
    seconds, draws = simulated(pipeline, factor, times.tolist())
    epoch = simulation.simulate(pipeline, factor, len(times))
    assert epoch.seconds == pytest.approx(seconds, rel=0.03)
    assert epoch.draws == pytest.approx(draws, rel=0.03)


@settings(max_examples=60)
@given(st.floats(0.05, 50), st.integers(1, 16))
def test_many_windows_come_to_the_formula(r, factor):
    pipeline = Pipeline(r, 1.0, batch_size=4, window=64)
    got = predict(pipeline, factor, 64 * 2000)
    assert got.fresh_s == cost_model.fresh_s(r, 1.0, factor)
    assert got.effective_factor == factor
    assert got.speedup == pytest.approx(cost_model.speedup(r, factor), rel=0.02)
    assert got.epoch_s == pytest.approx(got.same_steps_s * factor)
    assert 0 <= got.wait_share <= 1
    busy = min(1, factor / r)
    assert got.wait_share == pytest.approx(1 - busy, abs=0.02)


def test_auto_is_as_fast_as_the_best_and_settles_at_r():
    for r in (1.0, 2.7, 6.0, 30.0):
        pipeline = Pipeline(r, 1.0, batch_size=8, window=256)
        got = predict(pipeline, "auto", 256 * 100)
        assert got.factor == "auto"
        assert got.effective_factor == pytest.approx(min(r, 8), rel=0.05)
        best = max(predict(pipeline, e, 256 * 100).speedup for e in range(1, 9))
        assert got.speedup >= 0.97 * best
