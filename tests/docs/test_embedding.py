"""docs/embedding.md says what works, and the C++ trainer is built as a user would."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

import markdown
from cpp_trainer import PAGE, TRAINER, check_trainer, pip_installed


@pytest.mark.skipif(
    shutil.which("cmake") is None and "CI" not in os.environ, reason="no CMake"
)
def test_the_trainer_finds_what_pip_installed_and_learns(tmp_path):
    # It is compiled as a release, but for the time that this takes.
    less = "-DCMAKE_CXX_FLAGS_RELEASE=-O0"
    check_trainer(tmp_path / "trainer", tmp_path, pip_installed(), less)


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
