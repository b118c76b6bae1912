"""The example trains, and the benchmark of adapters runs."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "jax_equinox" / "train.py"


def test_the_example_trains(capsys):
    names = runpy.run_path(str(EXAMPLE))
    names["main"].__globals__["EPOCHS"] = 3  # a busy machine uses each less often
    assert names["main"]() > 0.8
    assert "each example used" in capsys.readouterr().out


def test_the_benchmark_of_adapters_writes_its_file(tmp_path):
    program = ROOT / "bench" / "adapters.py"
    command = [sys.executable, program, "--rounds", "1", "--out", tmp_path]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    result = json.loads((tmp_path / "adapters.json").read_text())
    assert result["microseconds"]["echobuf.jax.EchoLoader"]["median"] > 0
    assert result["jax_cost_over_dlpack"] > 0
