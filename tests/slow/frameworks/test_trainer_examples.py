"""The examples train, stop half-way, and go on."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("trainer", ["lightning", "accelerate"])
# Lightning asks torch for what torch is to lose.
@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")
# The second run keeps its checkpoints where the first one did.
@pytest.mark.filterwarnings("ignore:Checkpoint directory:UserWarning")
def test_the_example_trains(trainer, capsys, tmp_path, monkeypatch):
    pytest.importorskip(trainer)
    pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(EXAMPLES / trainer / "train.py"))
    assert names["main"]() > 0.8
    out = capsys.readouterr().out
    assert "rate 0.0, test accuracy" in out  # the schedule ends with the last step
    assert trainer != "lightning" or "525 steps" in out


def test_the_example_of_transformers_trains(capsys, tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(EXAMPLES / "hf_trainer" / "train.py"))
    assert names["main"]() < 0.6
    assert "320 steps, rate 0.0," in capsys.readouterr().out


def test_the_example_of_keras_trains(tmp_path):
    pytest.importorskip("keras")
    pytest.importorskip("sklearn")
    program = EXAMPLES / "keras" / "train.py"
    names = {**os.environ, "KERAS_BACKEND": "jax"}
    out = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env=names,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    steps, accuracy = out.split(" steps, test accuracy ")
    assert steps == "525"
    assert float(accuracy) > 0.8
