"""The smoke runs of bench/gpu, each in a process, on the simulated driver."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

from scripts import BENCH, importable

PACKAGES = {"torch": "torch", "jax": "jax"}


@pytest.fixture
def load(monkeypatch):
    with importable(monkeypatch, BENCH / "gpu") as load:
        yield load


@pytest.mark.parametrize("name", ["draw", "chain", "graph", "torch", "jax"])
def test_the_simulated_device_serves_what_the_cpu_does(name):
    if name in PACKAGES:
        pytest.importorskip(PACKAGES[name])
    script = BENCH / "gpu" / f"smoke_{name}.py"
    done = subprocess.run(
        [sys.executable, script, "--simulated"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout.startswith("90 batches as on the CPU")


@pytest.mark.parametrize("name", ["draw", "chain", "graph"])
def test_a_device_that_serves_something_else_is_found(name, load, monkeypatch):
    script, place = load(f"smoke_{name}"), load("place")
    to_host = place.Simulated.to_host

    def damaged(self, leaf):
        copy = to_host(self, leaf)
        copy.reshape(-1).view(np.uint8)[-1] ^= 1
        return copy

    monkeypatch.setattr(place.Simulated, "to_host", damaged)
    monkeypatch.setattr(sys, "argv", [script.__file__, "--simulated"])
    with pytest.raises(AssertionError, match="batch 0, 'image': the device serves"):
        load("smoke").main(None, script.smoke)


def test_batches_that_are_missing_or_of_another_dtype_differ(load):
    same = load("smoke").same
    batches = [{"label": np.arange(k, k + 3)} for k in range(4)]
    assert same(batches, batches) == "4 batches as on the CPU"
    for got in (batches[:3], []):
        with pytest.raises(AssertionError, match=f"{len(got)} batches of 4 came"):
            same(got, batches)
    with pytest.raises(AssertionError, match="batch 0, 'label'"):
        same([{"label": one["label"].astype("int32")} for one in batches], batches)


def test_without_jax_there_is_nothing_to_run(load, monkeypatch, capsys):
    smoke_jax = load("smoke_jax")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as end:
        smoke_jax.smoke(None)
    assert end.value.code == load("smoke").NOT_THERE
    assert "JAX is not there" in capsys.readouterr().out
