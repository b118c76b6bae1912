"""Metrics in a run of Weights & Biases, offline."""

import json
import subprocess
import sys

import pytest

OFFLINE = """
import json, sys, wandb
import numpy as np
import echobuf
from echobuf.metrics import Monitor, WandB

run = wandb.init(mode="offline", dir=sys.argv[1], settings={"silent": True})
loader = echobuf.EchoLoader(list(np.arange(40)), batch_size=4, window=8, factor=2)
for step, _ in enumerate(Monitor(loader, WandB(), every_s=0)):
    run.log({"loss": 1.0}, step=3 * step)  # counts as it likes
print(json.dumps({k: v for k, v in dict(run.summary).items() if k[0] != "_"}))
run.finish()
"""


def test_a_run_of_wandb_has_them_beside_its_own(tmp_path):
    pytest.importorskip("wandb")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", OFFLINE, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["echobuf/step"] == 20
    assert summary["echobuf/served"] == 80
    assert summary["echobuf/ratio"] > 0
    assert summary["loss"] == 1.0
