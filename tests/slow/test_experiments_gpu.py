"""experiments/gpu.sh, as far as it goes without a GPU."""

import os
import subprocess
import sys

import pytest

from scripts import BENCH, EXPERIMENTS
from stages import Script, summary

STAGES = ["wheels", "install", "doctor", "smoke_draw", "smoke_torch"]
STAGES += ["over_network", "fresh_examples"]


def end_of(*arguments, **environment):
    command = ["bash", EXPERIMENTS / "gpu.sh", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHON": sys.executable, **environment},
    )


def test_where_there_is_no_gpu_it_says_so(tmp_path):
    has_gpu = subprocess.run(
        [sys.executable, BENCH / "gpu" / "has_gpu.py"], capture_output=True, check=False
    )
    if has_gpu.returncode == 0:
        pytest.skip("there is a GPU here")
    done = end_of(tmp_path)
    assert done.returncode == 3
    assert "there is no GPU here" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [(), ("DIR", "nonsense")])
def test_bad_usage(tmp_path, arguments):
    done = end_of(*(tmp_path if text == "DIR" else text for text in arguments))
    assert done.returncode == 2
    assert "experiments/gpu.sh DIR NAME..." in done.stderr


def test_parts_beyond_the_time_are_left_out_and_fail_the_run(tmp_path):
    environment = {"ECHOBUF_DEVICE": "cpu", "ECHOBUF_GPU_SECONDS": "4"}
    done = end_of(tmp_path, "over_network", **environment)
    assert done.returncode == 1
    assert "over_network: left out, no time" in (tmp_path / "summary.txt").read_text()


@pytest.mark.parametrize(
    ("stage", "faulty", "fault", "came"),
    [
        ("install", "--force-reinstall", "exit 1", "exit code 1"),
        ("doctor", "echobuf doctor", "exit 1", "exit code 1"),
        ("smoke_draw", "smoke_draw", "sleep 300", "out of time"),
        ("over_network", "over_network", "kill -SEGV $$", "exit code 139"),
        ("over_network", "over_network", "sleep 300", "out of time"),
        ("fresh_examples", "fresh_examples", "kill -KILL $$", "killed"),
    ],
)
def test_a_fault_in_a_stage_loses_nothing_of_the_others(
    tmp_path, stage, faulty, fault, came
):
    gpu_sh, out = Script(EXPERIMENTS / "gpu.sh", tmp_path / "tools"), tmp_path / "out"
    told = {"ECHOBUF_DEVICE": "cpu", "ECHOBUF_GPU_SECONDS": "120"}
    assert gpu_sh(out, faulty=faulty, fault=fault, **told) == 1
    found = summary(out)
    assert {name: found[name] for name in STAGES} == {
        **dict.fromkeys(STAGES, "ok"),
        stage: came,
    }
    for name in STAGES[1:]:
        assert "begun: " in (out / f"{name}.log").read_text()
