"""The examples train, stop half-way, and go on."""

import runpy
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
    assert "test accuracy" in out
    assert trainer != "lightning" or "525 steps" in out
