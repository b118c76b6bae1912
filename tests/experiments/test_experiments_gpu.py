"""experiments/gpu.sh, as far as it goes without a GPU."""

import os
import subprocess
import sys

import pytest

from scripts import BENCH, EXPERIMENTS


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


def test_what_does_not_fit_into_the_time_is_left_out_and_counts(tmp_path):
    environment = {"ECHOBUF_DEVICE": "cpu", "ECHOBUF_GPU_SECONDS": "4"}
    done = end_of(tmp_path, "over_network", **environment)
    assert done.returncode == 1
    assert "over_network: left out, no time" in (tmp_path / "summary.txt").read_text()
