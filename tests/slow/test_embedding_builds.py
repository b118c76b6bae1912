"""A C++ program is built against what CMake installed, by the CMake of the page."""

from __future__ import annotations

import shutil

import markdown
from cpp_trainer import PAGE, TRAINER, cmake_installed, configure, run


def test_the_cmake_of_the_page_builds_a_program(tmp_path):
    (listed,) = markdown.blocks(PAGE, "cmake")
    project = tmp_path / "project"
    shutil.copytree(TRAINER, project)
    (project / "CMakeLists.txt").write_text(listed)
    (project / "main.cpp").write_text((TRAINER / "first.cpp").read_text())
    build = tmp_path / "build"
    configure(project, build, cmake_installed(tmp_path))
    assert "-O3" in run("cmake", "--build", build, "--verbose")  # a Release build
    assert run(build / "cpp_trainer").endswith(" labels served\n")
