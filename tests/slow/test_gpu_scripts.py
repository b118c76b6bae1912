"""bench/gpu.sh and experiments/gpu.sh in stages: a fault in one costs no other one."""

from pathlib import Path

import pytest

from scripts import BENCH, EXPERIMENTS
from stages import Script, summary

TESTS = Path(__file__).parents[1] / "gpu"


def names_in(variable):
    text = (BENCH / "gpu.sh").read_text()
    return text.partition(f"\n{variable}=(")[2].partition(")")[0].split()


STAGES = [
    *("wheels", "install", "doctor"),
    *(f"smoke_{name}" for name in names_in("smokes")),
    *(f"test_gpu_{name}" for name in names_in("tests")),
    "contract",
    *names_in("benchmarks"),
]


def test_every_file_of_tests_and_every_smoke_run_is_named():
    files = sorted(path.name for path in TESTS.glob("test_*.py"))
    assert sorted(f"test_gpu_{name}.py" for name in names_in("tests")) == files
    assert all((BENCH / "gpu" / f"smoke_{n}.py").is_file() for n in names_in("smokes"))


@pytest.mark.parametrize(
    ("stage", "faulty", "fault", "came"),
    [
        ("doctor", "echobuf doctor", "kill -SEGV $$", "exit code 139"),
        ("smoke_graph", "smoke_graph", "trap '' ABRT; sleep 300; sleep 300", "killed"),
        ("test_gpu_order", "test_gpu_order", "sleep 300", "out of time"),
        ("draw_images", "draw_images", "exit 1", "exit code 1"),
    ],
)
def test_a_fault_in_a_stage_loses_nothing_of_the_others(
    tmp_path, stage, faulty, fault, came
):
    gpu_sh, out = Script(BENCH / "gpu.sh", tmp_path / "tools"), tmp_path / "out"
    told = {"faulty": faulty, "fault": fault, "WHEELS": "one.whl\\n"}
    assert gpu_sh("--simulated", out, **told) == 1
    found = summary(out)
    expected = {**dict.fromkeys(STAGES, "ok"), stage: came}
    assert {name: found[name] for name in STAGES} == expected


def test_a_fault_in_an_experiment_loses_nothing_of_the_others(tmp_path):
    gpu_sh, out = Script(EXPERIMENTS / "gpu.sh", tmp_path / "tools"), tmp_path / "out"
    told = {"ECHOBUF_DEVICE": "cpu", "ECHOBUF_GPU_SECONDS": "120"}
    assert gpu_sh(out, faulty="over_network", fault="sleep 300", **told) == 1
    found = summary(out)
    assert found["over_network"] == "out of time"
    assert found["fresh_examples"] == "ok"
