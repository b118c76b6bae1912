"""The script that builds wheels, as far as it goes without a build; what tries them."""

import importlib.util
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "packaging"


def module_of(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def build_wheel():
    return module_of("build_wheel")


@pytest.fixture(scope="module")
def zig_cxx():
    return module_of("zig_cxx")


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
    for tool in ("cc", "c++"):
        assert " -target aarch64-linux-gnu.2.28 " in tools[tool].read_text()


def test_the_compiler_is_the_script_that_links_twice(build_wheel, tmp_path):
    tools = build_wheel.write_tools(tmp_path, "x86_64-linux-musl")
    *_, command = tools["c++"].read_text().splitlines()
    script = shlex.split(command)[2]
    assert Path(script) == FOLDER / "zig_cxx.py"


def test_lld_is_called_as_zig_called_it(zig_cxx):
    printed = """clang version 22.1.8
ld.lld: warning: a.o: something
ld.lld -m elf_x86_64 -shared -o 'a folder/a.so' a.o
"""
    arguments = ["-m", "elf_x86_64", "-shared", "-o", "a folder/a.so", "a.o"]
    assert zig_cxx.linking_of(printed) == arguments


def test_a_zig_that_shows_no_call_of_lld_is_refused(zig_cxx):
    with pytest.raises(
        SystemExit, match=r"packaging/requirements\.txt(.|\n)*self-hosted"
    ):
        zig_cxx.linking_of("linking with the self-hosted linker\n")


def test_what_tries_a_wheel_passes_here():
    script = str(FOLDER / "try_wheel.py")
    done = subprocess.run(
        [sys.executable, "-I", script], check=True, capture_output=True, text=True
    )
    assert "the script ran from" in done.stdout
    assert "batch_size" in done.stdout
