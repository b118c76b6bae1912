"""docs/embedding.md says what works, and the C++ trainer is built as a user would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import markdown

ROOT = Path(__file__).parent.parent
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


def pip_installed(tmp_path: Path) -> str:
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


@pytest.mark.skipif(
    shutil.which("cmake") is None and "CI" not in os.environ, reason="no CMake"
)
@pytest.mark.parametrize("installed", [pip_installed, cmake_installed])
def test_the_trainer_finds_echobuf_and_learns(installed, tmp_path):
    build = tmp_path / "trainer"
    configure(TRAINER, build, installed(tmp_path))
    run("cmake", "--build", build)
    lines = run(build / "cpp_trainer", cwd=tmp_path).splitlines()
    assert "fresh 6000, served 24000: each 4 times" in lines
    assert float(lines[-1].removeprefix("accuracy ")) > 0.9
    count = int(run(build / "first").removesuffix(" labels served\n"))
    assert abs(count - 2500) <= 256 // 3


def test_the_page_shows_code_of_the_trainer():
    files = [path.read_text() for path in TRAINER.iterdir() if path.is_file()]
    code = "".join("".join(files).split())
    shown = markdown.blocks(PAGE, "cpp") + markdown.blocks(PAGE, "cmake")
    assert len(shown) >= 5
    for block in shown:
        for part in block.split("\n\n"):
            assert "".join(part.split()) in code, block


def test_the_python_of_the_page_serves_everything_across_a_resume(capsys):
    uses = np.zeros(1000, int)

    def read_example(i):
        return {"x": np.full(8, i, np.float32), "y": np.int64(i)}

    def train_step(x, y):
        assert (x == y[:, None]).all()
        np.add.at(uses, y, 1)

    names = {"read_example": read_example, "train_step": train_step}
    for block in markdown.blocks(PAGE, "python"):
        exec(block, names)
    assert set(uses) == {2, 3}
    assert "factor 2." in capsys.readouterr().out
