"""Keras 3 fits models to loaders, on torch and JAX, and goes on after interruptions."""

import json
import sys
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from run_program import run_program

pytest.importorskip("keras")

EXAMPLES, STEPS, EPOCHS = 40, 16, 3
PROGRAM = Path(__file__).with_name("keras_runs.py")


@pytest.fixture(scope="module", params=["torch", "jax"])
def results(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    names = {"KERAS_BACKEND": request.param, "OMP_NUM_THREADS": "1"}
    # Each model compiles its step anew, and most of them have the same one.
    names |= {
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    run_program([sys.executable, PROGRAM, folder], names)
    return json.loads((folder / "results.json").read_text())


def uses(batches):
    return Counter(chain(*batches))


@pytest.mark.parametrize("kind", ["built", "unbuilt", "validated"])
def test_an_epoch_uses_each_example_as_often_as_the_factor_says(results, kind):
    trained = results[kind]["trained"]
    assert len(trained) == results[kind]["steps"] == EPOCHS * STEPS
    orders = [trained[n * STEPS : (n + 1) * STEPS] for n in range(EPOCHS)]
    for order in orders:
        assert uses(order) == dict.fromkeys(range(EXAMPLES), 2)
    assert len({str(order) for order in orders}) == EPOCHS
    assert results[kind]["rate"] == 0


def test_a_look_at_the_first_batch_changes_nothing(results):
    assert results["built"]["trained"] == results["unbuilt"]["trained"]


def test_validation(results):
    assert len(results["validated"]["validated"]) == EPOCHS


def test_epochs_of_one_length_with_a_fractional_factor(results):
    trained = results["fractional"]["trained"]
    assert len(trained) == 4 * 9
    for n in range(4):
        used = uses(trained[9 * n : 9 * n + 9])
        assert max(used.values()) <= 2


def test_steps_per_epoch(results):
    for kind, steps in (("auto", 7), ("chained", 10)):
        assert len(results[kind]["trained"]) == EPOCHS * steps
        assert results[kind]["epochs"] == [0, 1, 2]
        assert results[kind]["rate"] == 0
    trained = results["chained"]["trained"]
    assert uses(trained[:STEPS]) == dict.fromkeys(range(EXAMPLES), 2)
    assert trained == results["built"]["trained"][: len(trained)]


@pytest.mark.parametrize("kind", ["goes on", "goes on, chained"])
def test_fit_goes_on_with_the_next_batch(results, kind):
    whole, rests = results[kind]["whole"], results[kind]["rests"]
    assert len(rests) >= 3
    for stop, rest in rests.items():
        trained = whole["trained"]
        assert rest["before"] == trained[: int(stop)]
        assert rest["trained"] == trained[int(stop) :], stop
        assert rest["epochs"][-1] == EPOCHS - 1
        for name in ("steps", "rate", "weights"):
            assert rest[name] == whole[name], stop


def test_fit_goes_on_where_several_steps_are_one_execution(results):
    runs = results["goes on, by threes"]
    assert runs["whole"]["steps"] == EPOCHS * STEPS
    for stop, rest in runs["rests"].items():
        for name in ("steps", "rate", "weights"):
            assert rest[name] == runs["whole"][name], stop


def test_fit_goes_on_with_the_epoch_that_was_interrupted(results):
    whole = results["goes on, by epochs"]["whole"]["trained"]
    for stop, rest in results["goes on, by epochs"]["rests"].items():
        assert rest["trained"] == whole[int(stop) // STEPS * STEPS :]


def test_the_code_of_the_page(results):
    assert results["page"] == 10 * STEPS


def test_what_is_refused(results):
    said = results["refusals"]
    assert "OptionError: `loader` is a list" in said["loader"]
    assert "OptionError: `data` is a list" in said["data"]
    assert "StateError: `state_dict` is not that" in said["state"]
    assert "step 99" in said["steps"]
    assert "weights of step 3" in said["steps"]
    assert "StateError: the backup in" in said["weights"]
    assert "no position in the data" in said["weights"]
    assert "OptionError: `data` is not the EchoDataset" in said["other data"]
    assert "OptionError: `loader` has epochs without a batch" in said["no batch"]
    assert "OptionError: `steps_per_epoch` is None" in said["length"]
    assert "OptionError: `loader` yields no batch" in said["empty"]
    assert "OptionError: `loader` has with_info=True" in said["info"]
