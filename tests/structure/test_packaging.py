"""The script that builds wheels, as far as it goes without a build; what tries them."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "packaging"


@pytest.fixture(scope="module")
def build_wheel():
    spec = importlib.util.spec_from_file_location(
        "build_wheel", FOLDER / "build_wheel.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("target", "policy", "triple"),
    [
        ("x86_64-linux-gnu.2.28", "manylinux_2_28_x86_64", "x86_64-linux-gnu"),
        ("aarch64-linux-gnu.2.34", "manylinux_2_34_aarch64", "aarch64-linux-gnu"),
        ("x86_64-linux-musl", "musllinux_1_2_x86_64", "x86_64-linux-musl"),
    ],
)
def test_targets_have_policies_and_triples(build_wheel, target, policy, triple):
    assert build_wheel.policy_of(target) == (policy, triple)


@pytest.mark.parametrize("target", ["", "x86_64", "x86_64-linux-gnu", "riscv64-linux"])
def test_other_targets_are_refused_with_an_example(build_wheel, target):
    with pytest.raises(SystemExit, match=r"must be .* as x86_64-linux-gnu\.2\.28"):
        build_wheel.policy_of(target)


def test_tools_are_scripts_that_name_the_target(build_wheel, tmp_path):
    tools = build_wheel.write_tools(tmp_path, "aarch64-linux-gnu.2.28")
    assert set(tools) == {"cc", "c++", "ar", "ranlib"}
    assert all(tool.stat().st_mode & 0o111 for tool in tools.values())
    assert " c++ -target aarch64-linux-gnu.2.28 " in tools["c++"].read_text()


def test_what_tries_a_wheel_passes_here():
    script = str(FOLDER / "try_wheel.py")
    done = subprocess.run(
        [sys.executable, "-I", script], check=True, capture_output=True, text=True
    )
    assert "the script ran from" in done.stdout
    assert "batch_size" in done.stdout
