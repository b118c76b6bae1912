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

ROOT = Path(__file__).parents[2]
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


def test_the_cmake_of_the_page_builds_the_trainer(tmp_path):
    (listed,) = markdown.blocks(PAGE, "cmake")
    project = tmp_path / "project"
    shutil.copytree(TRAINER, project)
    (project / "CMakeLists.txt").write_text(listed)
    (project / "main.cpp").write_text((TRAINER / "first.cpp").read_text())
    build = tmp_path / "build"
    configure(project, build, cmake_installed(tmp_path))
    assert "-O3" in run("cmake", "--build", build, "--verbose")  # a Release build
    assert run(build / "cpp_trainer").endswith(" labels served\n")


MISUSE = """
#include <cstdio>
#include <stdexcept>
#include <vector>
#include "echobuf/echobuf.hpp"

template <class Call>
void tell(Call&& call) {
  try {
    call();
    std::puts("taken");
  } catch (const std::out_of_range& error) {
    std::printf("out of range: %s\\n", error.what());
  } catch (const std::invalid_argument& error) {
    std::printf("invalid: %s\\n", error.what());
  }
}

int main() {
  echobuf::BufferOptions options;
  tell([&] { echobuf::Buffer buffer(options); });
  options.fields = {{4, 1}};
  options.window = options.batch_size = 2;
  echobuf::Buffer buffer(options);
  const double numbers[] = {1, 2};
  const echobuf::SourceLeaf wide[] = {echobuf::SourceLeaf::of(numbers)};
  tell([&] { buffer.put(wide); });
  const float values[] = {1, 2};
  const echobuf::SourceLeaf leaves[] = {echobuf::SourceLeaf::of(values)};
  for (int i = 0; i < 2; ++i) buffer.put(leaves);
  buffer.close();
  echobuf::Batch batch;
  if (buffer.next(batch) != echobuf::Status::kOk) return 1;
  tell([&] { buffer.field<long>(batch, 0); });
  tell([&] { buffer.field<float>(batch, 3); });
  tell([&] { buffer.field<float>(batch, 0); });
}
"""


def test_misuse_by_an_embedder_is_named(tmp_path):
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    source = tmp_path / "misuse.cpp"
    source.write_text(MISUSE)
    headers = ROOT / "cpp" / "include"
    run(compiler, "-std=c++20", "-pthread", "-I", headers, source, "-o", tmp_path / "m")
    kinds = [line.partition(": ") for line in run(tmp_path / "m").splitlines()]
    assert [kind for kind, _, _ in kinds] == [
        "invalid",
        "invalid",
        "invalid",
        "out of range",
        "taken",
    ]
    said = [text for _, _, text in kinds]
    assert "`fields` is empty" in said[0]
    assert "leaf 0 has 8 bytes an example, but its field 4" in said[1]
    assert "leaf 0 has 4 bytes an example" in said[2]
    assert "`index` is 3" in said[3]


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
