"""A C++ program is built against what CMake installed, by the CMake of the page."""

from __future__ import annotations

from pathlib import Path

import echobuf
import markdown
from cpp_trainer import PAGE, ROOT, cmake_installed, configure, run

# What the core's target brings: where the headers are, C++20, and threads. The trainer
# itself is built in tests/docs/test_embedding.py, which takes a compiler far longer.
PROGRAM = """
#include <concepts>
#include <cstdio>
#include <thread>

#include "echobuf/version.hpp"

int main() {
  std::thread([] { std::puts(ECHOBUF_VERSION); }).join();
}
"""


def headers(include: Path) -> dict[str, bytes]:
    """Return all headers by their names."""
    paths = include.rglob("*.hpp")
    return {path.relative_to(include).as_posix(): path.read_bytes() for path in paths}


def test_the_cmake_of_the_page_builds_a_program(tmp_path):
    (listed,) = markdown.blocks(PAGE, "cmake")
    project = tmp_path / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(listed)
    (project / "main.cpp").write_text(PROGRAM)
    build = tmp_path / "build"
    configure(project, build, cmake_installed(tmp_path))
    assert "-O3" in run("cmake", "--build", build, "--verbose")  # a Release build
    assert run(build / "cpp_trainer") == f"{echobuf.__version__}\n"
    assert headers(tmp_path / "prefix/include") == headers(ROOT / "cpp/include")
