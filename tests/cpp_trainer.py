"""Building and running the C++ trainer of docs/embedding.md as a user would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TRAINER = ROOT / "examples" / "cpp_trainer"
PAGE = ROOT / "docs" / "embedding.md"


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def configure(source: Path, build: Path, *options: str) -> None:
    generator = ("-G", "Ninja") if shutil.which("ninja") else ()
    run("cmake", *generator, "-S", source, "-B", build, *options)


def pip_installed() -> str:
    """The option that finds what pip installed."""
    command = [sys.executable, "-m", "echobuf", "cmake-dir"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 and "CI" not in os.environ:
        pytest.skip("echobuf runs from its sources: no CMake package in it")
    assert done.returncode == 0, done.stderr
    return f"-Dechobuf_DIR={done.stdout.strip()}"


def cmake_installed(tmp_path: Path) -> str:
    """The option that finds what `cmake --install` put into a prefix."""
    configure(ROOT, tmp_path / "core")
    run("cmake", "--install", tmp_path / "core", "--prefix", tmp_path / "prefix")
    return f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'}"


def check_trainer(build: Path, folder: Path, *options: str) -> None:
    """Build the trainer with options of CMake; it serves, learns and says so."""
    configure(TRAINER, build, *options)
    run("cmake", "--build", build)
    lines = run(build / "cpp_trainer", cwd=folder).splitlines()
    assert "fresh 6000, served 24000: each 4 times" in lines
    assert float(lines[-1].removeprefix("accuracy ")) > 0.9
    count = int(run(build / "first").removesuffix(" labels served\n"))
    assert abs(count - 2500) <= 256 // 3
    assert run(build / "lengths") == f"{3 * 10 * sum(range(100))} tokens served\n"
