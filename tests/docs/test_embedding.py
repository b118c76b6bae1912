"""docs/embedding.md says what works, and the C++ trainer is built as a user would."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

import markdown
from cpp_trainer import PAGE, ROOT, TRAINER, check_trainer, pip_installed, run


@pytest.mark.skipif(
    shutil.which("cmake") is None and "CI" not in os.environ, reason="no CMake"
)
def test_the_trainer_finds_what_pip_installed_and_learns(tmp_path):
    # It is compiled as a release, but for the time that this takes.
    less = "-DCMAKE_CXX_FLAGS_RELEASE=-O1"
    check_trainer(tmp_path / "trainer", tmp_path, pip_installed(), less)


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
