"""bench/gpu.sh in stages: a fault in one loses nothing of the others."""

import os
import signal
import sys
from pathlib import Path

import pytest

from helpers import WAIT_S, until
from scripts import BENCH
from stages import Script, executable, summary

INSTALL = ["wheels", "install"]
SMOKES = ["draw", "chain", "graph", "torch", "jax"]
TESTS = Path(__file__).parents[1] / "gpu"


def names_in(variable):
    text = (BENCH / "gpu.sh").read_text()
    return text.partition(f"\n{variable}=(")[2].partition(")")[0].split()


STAGES = [
    *INSTALL,
    "doctor",
    *(f"smoke_{name}" for name in SMOKES),
    *(f"test_gpu_{name}" for name in names_in("tests")),
    "contract",
    *names_in("benchmarks"),
]


TOGETHER = [f"test_gpu_{name}" for name in names_in("tests") if name != "memory"]


@pytest.fixture
def gpu_sh(tmp_path):
    return Script(BENCH / "gpu.sh", tmp_path / "tools")


def results(out):
    """Return the outcome of each stage that every machine has."""
    return {n: came for n, came in summary(out).items() if n in STAGES}


def ended_beside(name):
    """Return the stages that end although the test file `name` hangs, and well."""
    first = STAGES[: STAGES.index(TOGETHER[0])]
    return dict.fromkeys([n for n in (*first, *TOGETHER) if n != name], "ok")


def test_every_file_of_tests_and_every_smoke_run_is_named():
    files = sorted(path.name for path in TESTS.glob("test_*.py"))
    assert sorted(f"test_gpu_{name}.py" for name in names_in("tests")) == files
    assert names_in("smokes") == SMOKES
    assert all((BENCH / "gpu" / f"smoke_{name}.py").is_file() for name in SMOKES)


@pytest.mark.parametrize(
    ("stage", "faulty", "fault", "came"),
    [
        ("wheels", "--no-deps -q", "exit 1", "exit code 1"),
        ("install", "--force-reinstall", "exit 1", "exit code 1"),
        ("doctor", "echobuf doctor", "kill -SEGV $$", "exit code 139"),
        ("smoke_graph", "smoke_graph", "trap '' ABRT; sleep 300; sleep 300", "killed"),
        ("smoke_torch", "smoke_torch", "exit 3", "exit code 3"),
        ("test_gpu_order", "test_gpu_order", "sleep 300", "out of time"),
        ("test_gpu_memory", "test_gpu_memory", "kill -KILL $$", "killed"),
        ("contract", "--real-device", "exit 1", "exit code 1"),
        ("draw_images", "draw_images", "kill -ABRT $$", "exit code 134"),
        ("replay_peers", "replay_peers", "exit 1", "exit code 1"),
    ],
)
def test_a_fault_in_a_stage_loses_nothing_of_the_others(
    gpu_sh, tmp_path, stage, faulty, fault, came
):
    out = tmp_path / "out"
    told = {"faulty": faulty, "fault": fault, "WHEELS": "one.whl\\n"}
    assert gpu_sh("--simulated", out, **told) == 1
    assert results(out) == {**dict.fromkeys(STAGES, "ok"), stage: came}
    assert summary(out)["SIMULATED"] == "what is measured means nothing"
    for name in STAGES:
        assert "begun: " in (out / f"{name}.log").read_text()


def test_a_fault_in_every_stage_leaves_the_outcome_of_each(gpu_sh, tmp_path):
    told = {"faulty": "", "fault": "exit 3", "WHEELS": "one.whl\\n"}
    assert gpu_sh("--simulated", tmp_path, **told) == 1
    assert results(tmp_path) == {
        **dict.fromkeys(STAGES, "exit code 3"),
        "wheels": "exit code 1",  # of the script that tries them one by one
    }


def test_files_of_tests_run_side_by_side_and_those_of_memory_alone(gpu_sh, tmp_path):
    """Each waits until all have begun; the one of memory sees that all have ended."""
    out, begun = tmp_path / "out", tmp_path / "begun"
    begun.mkdir()
    fault = f"""case "$*" in
      *memory*) cp {out}/summary.txt {tmp_path}/summary.txt ;;
      *) touch {begun}/$$; until [ $(ls {begun} | wc -l) = {len(TOGETHER)} ]; do :; done
    esac"""
    assert gpu_sh(out, "tests", faulty="test_gpu_", fault=fault, PACE="3") == 0
    assert summary(tmp_path) == dict.fromkeys(TOGETHER, "ok")


def test_no_more_files_of_tests_run_at_once_than_there_are_cores(gpu_sh, tmp_path):
    executable(gpu_sh.tools / "getconf", "#!/bin/sh\necho 1\n")
    out, before = tmp_path / "out", tmp_path / "before"
    fault = f"cat {out}/summary.txt | wc -l >> {before}"
    assert gpu_sh(out, "tests", faulty="test_gpu_", fault=fault) == 0
    assert [*map(int, before.read_text().split())] == [*range(len(TOGETHER) + 1)]


def test_nothing_to_run_is_no_failure(gpu_sh, tmp_path):
    assert gpu_sh(tmp_path, faulty="jax.py", fault="exit 5") == 0
    found = results(tmp_path)
    assert {n for n, came in found.items() if came == "nothing to run"} == {
        "smoke_jax",
        "test_gpu_jax",
    }


def test_a_cut_loses_only_the_stage_that_runs(gpu_sh, tmp_path):
    log = tmp_path / "test_gpu_order.log"
    ended = ended_beside("test_gpu_order")
    fault = "echo it hangs; sleep 300"
    told = {"faulty": "test_gpu_order", "fault": fault, "PACE": "8"}
    with gpu_sh.begun(tmp_path, **told) as process:
        until(lambda: log.exists() and "it hangs" in log.read_text())
        until(lambda: results(tmp_path) == ended)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert results(tmp_path) == ended


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("hangs", ["test_gpu_order", "draw_images"])
def test_a_signal_ends_what_runs_and_no_stage_begins(gpu_sh, tmp_path, hangs, number):
    """One of the files of tests side by side, and a stage alone."""
    log = tmp_path / f"{hangs}.log"
    fault = "echo it hangs $$; sleep 300 & wait"
    told = {"faulty": hangs, "fault": fault, "PACE": "2"}
    part = "bench" if hangs == "draw_images" else "tests"
    with gpu_sh.begun(tmp_path, part, **told) as process:
        until(lambda: log.exists() and "it hangs" in log.read_text())
        if part == "tests":
            until(lambda: len(results(tmp_path)) == len(TOGETHER) - 1)
        os.kill(process.pid, number)
        assert process.wait(WAIT_S) == 128 + number
    stage = int(log.read_text().partition("it hangs ")[2].split()[0])
    with pytest.raises(ProcessLookupError):
        os.kill(stage, 0)
    assert hangs not in results(tmp_path)
    assert len(results(tmp_path)) == (len(TOGETHER) - 1 if part == "tests" else 0)


def test_a_process_that_outlives_its_stage_holds_nothing_up(gpu_sh, tmp_path):
    survivor = tmp_path / "pid"
    fault = f"setsid sleep 300 & echo $! > {survivor}; exit 1"
    assert gpu_sh(tmp_path, "bench", faulty="draw_images", fault=fault) == 1
    os.kill(int(survivor.read_text()), signal.SIGKILL)  # it was still there
    expected = dict.fromkeys(names_in("benchmarks"), "ok")
    assert results(tmp_path) == {**expected, "draw_images": "exit code 1"}


def test_tests_leave_time_for_benchmarks(gpu_sh, tmp_path):
    assert gpu_sh(tmp_path, ECHOBUF_GPU_SECONDS="154") == 1
    found = results(tmp_path)
    for name in names_in("tests"):
        assert found[f"test_gpu_{name}"] == "left out"
    assert all(found[name] == "ok" for name in names_in("benchmarks"))


def test_a_stage_that_is_stopped_leaves_the_tracebacks_of_its_threads(gpu_sh, tmp_path):
    hangs = tmp_path / "test_hangs.py"
    hangs.write_text("import time\ndef test_it():\n    time.sleep(300)\n")
    fault = f"""
    case "$*" in
      *draw*) exec {sys.executable} -c "print(1); import time; time.sleep(300)" ;;
      *graph*) exec {sys.executable} -m pytest -o addopts= {hangs} ;;
    esac
    exit"""
    assert gpu_sh(tmp_path, "smoke", faulty="smoke_", fault=fault, PACE="4") == 1
    log = (tmp_path / "smoke_draw.log").read_text()
    assert "\n1\n" in log, "what was printed before"
    assert 'File "<string>", line 1' in log
    log = (tmp_path / "smoke_graph.log").read_text()
    assert f'File "{hangs}", line 3 in test_it' in log


def test_files_of_tests_by_name(gpu_sh, tmp_path):
    """With the real interpreter; JAX's tests all need a GPU."""
    real = {"REAL": sys.executable, "PATH": os.environ["PATH"]}
    assert gpu_sh("--simulated", tmp_path, "tests", "order", "jax", **real) == 0
    assert results(tmp_path) == {
        "test_gpu_order": "ok",
        "test_gpu_jax": "nothing to run",
    }
    assert " passed" in (tmp_path / "test_gpu_order.log").read_text()


def test_the_contract_is_tried_on_the_stand_in(gpu_sh, tmp_path):
    real = {"REAL": sys.executable, "PATH": os.environ["PATH"]}
    assert gpu_sh("--simulated", tmp_path, "contract", **real) == 0
    assert results(tmp_path) == {"contract": "ok"}
    assert " passed" in (tmp_path / "contract.log").read_text()


def test_a_broken_benchmark_leaves_the_figures_of_the_others(gpu_sh, tmp_path):
    real = {"REAL": sys.executable, "PATH": os.environ["PATH"], "faulty": "draw_small"}
    names = ["draw_pages", "draw_small", "host_time"]
    assert gpu_sh("--simulated", tmp_path, "bench", *names, **real) == 1
    assert sorted(path.name for path in tmp_path.glob("*.json")) == [
        "gpu_draw_pages.simulated.json",
        "gpu_host_time.simulated.json",
    ]


# ---- compute-sanitizer


def test_smoke_runs_once_more_under_compute_sanitizer(gpu_sh, tmp_path):
    tool = """#!/usr/bin/env bash
while [[ "$1" == -* ]]; do [ "$1" = --error-exitcode ] && code=$2; shift 2; done
"$@" && [[ "$*" != *smoke_chain* ]] || exit $code
"""
    executable(gpu_sh.tools / "compute-sanitizer", tool)
    assert gpu_sh(tmp_path, "smoke") == 1
    plain, sanitized = (
        {name: summary(tmp_path)[f"{prefix}_{name}"] for name in SMOKES}
        for prefix in ("smoke", "sanitized")
    )
    assert plain == dict.fromkeys(SMOKES, "ok")
    assert sanitized == {**plain, "chain": "exit code 1"}


def test_without_compute_sanitizer_it_says_so(gpu_sh, tmp_path):
    if any(Path("/usr/local").glob("cuda*/bin/compute-sanitizer")):
        pytest.skip("it is there")
    assert gpu_sh(tmp_path, "smoke") == 0
    assert summary(tmp_path)["sanitized"] == "compute-sanitizer is not there"


# ---- wheels


@pytest.mark.parametrize(
    ("fault", "installed"),
    [("exit 0", ["one.whl"]), ("[[ $* != *.whl ]]; exit", ["one.whl", "two.whl", "."])],
)
def test_the_checkout_is_built_where_no_wheel_fits(gpu_sh, tmp_path, fault, installed):
    told = {
        "WHEELS": "one.whl\\ntwo.whl\\n",
        "faulty": "--force-reinstall",
        "fault": fault,
    }
    assert gpu_sh(tmp_path, "install", **told) == 0
    log = (tmp_path / "install.log").read_text().splitlines()
    assert [line.split()[-1] for line in log if line.startswith("begun")] == installed
