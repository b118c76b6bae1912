"""Passes against a shuffle buffer: memory, measures, resuming, the runs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffled_repeats import shuffled_repeats


@pytest.fixture
def conditions(load):
    return load("shuffles.conditions")


@pytest.mark.parametrize("factor", [1, 2, 3, 4, 8])
def test_the_window_and_its_segment_are_the_memory(conditions, factor):
    for memory in range(2 * factor + 2, 200):
        window = conditions.Condition("passes", factor, memory).size
        assert window + -(-window // factor) <= memory
        assert window + 1 + -(-(window + 1) // factor) > memory


@pytest.mark.parametrize("factor", [2, 4, 8])
def test_distinct_examples_of_a_shuffle_buffer(conditions, factor):
    entries, held = 512, []
    shuffled_repeats(20 * entries, factor, entries, held=held)
    steady = held[len(held) // 4 :: 50]
    distinct = np.mean([len(np.unique(buffer)) for buffer in steady])
    share = conditions.distinct_share(factor)
    assert distinct / entries == pytest.approx(share, rel=0.03)
    larger = conditions.Condition("shuffle, same bytes", factor, entries).size
    assert larger * share == pytest.approx(entries, abs=1)


@settings(max_examples=60)
@given(data=st.data())
def test_measures_against_brute_force(measures, data):
    draws = data.draw(st.lists(st.integers(0, 9), max_size=60))
    batch_size = data.draw(st.integers(1, 7))
    found = measures.duplicates(np.array(draws, np.int64), batch_size)
    whole = len(draws) // batch_size
    batches = [draws[i * batch_size :][:batch_size] for i in range(whole)]
    assert found.tolist() == [batch_size - len(set(batch)) for batch in batches]
    numbers, apart = measures.distances(np.array(draws, np.int64))
    expected = [
        (number, next(d for d in range(1, i + 1) if draws[i - d] == number))
        for i, number in enumerate(draws)
        if number in draws[:i]
    ]
    assert sorted(zip(numbers.tolist(), apart.tolist(), strict=True)) == sorted(
        expected
    )


@pytest.fixture(scope="module")
def measures():
    with pytest.MonkeyPatch.context() as patch:
        from scripts import EXPERIMENTS, importable

        with importable(patch, EXPERIMENTS) as load:
            yield load("shuffles.measures")


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
