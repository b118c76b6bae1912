"""The C++ trainer is built against what CMake installed."""

from __future__ import annotations

import shutil

import markdown
from cpp_trainer import PAGE, TRAINER, check_trainer, cmake_installed, configure, run


def test_the_trainer_finds_what_cmake_installed_and_learns(tmp_path):
    check_trainer(tmp_path / "trainer", tmp_path, cmake_installed(tmp_path))


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
