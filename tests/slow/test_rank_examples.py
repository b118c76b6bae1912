"""The examples train, started as their docstrings say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["ddp", "fsdp"])
def test_the_example_trains_on_two_ranks(name):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node", "2", str(EXAMPLES / name / "train.py")],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    epochs = done.stdout.splitlines()
    assert len(epochs) == 3
    assert float(epochs[-1].split()[-1]) > 0.8
