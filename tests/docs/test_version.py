"""The version has one place, `echobuf/version.hpp`; all others say the same."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import echobuf
import echobuf.cli.main

ROOT = Path(__file__).parents[2]
HEADER = "echobuf/version.hpp"


def numbers(folder: Path) -> list[int]:
    text = (folder / HEADER).read_text()
    return [
        int(re.search(rf"^#define ECHOBUF_VERSION_{part} (\d+)$", text, re.M)[1])
        for part in ("MAJOR", "MINOR", "PATCH")
    ]


def cmake_folder(capsys: pytest.CaptureFixture[str]) -> Path:
    assert echobuf.cli.main.main(["cmake-dir"]) == 0
    return Path(capsys.readouterr().out.strip())


def compatible(folder: Path, wanted: str, script: Path) -> bool:
    """Say if `find_package(echobuf <wanted>)` would take the package."""
    parts = [*wanted.split("."), "0"][:3]
    about = [f"-DPACKAGE_FIND_VERSION={wanted}"]
    for name, part in zip(("MAJOR", "MINOR", "PATCH"), parts, strict=False):
        about.append(f"-DPACKAGE_FIND_VERSION_{name}={part}")
    about.append(f"-DPACKAGE_FIND_VERSION_COUNT={wanted.count('.') + 1}")
    script.write_text(
        f'include("{folder / "echobufConfigVersion.cmake"}")\n'
        "if(PACKAGE_VERSION_COMPATIBLE)\n  message(STATUS taken)\nendif()\n"
    )
    done = subprocess.run(
        ["cmake", *about, "-P", script], capture_output=True, text=True, check=True
    )
    return "taken" in done.stdout


def test_installed_headers_and_python_agree():
    assert ".".join(map(str, numbers(Path(echobuf.get_include())))) == (
        echobuf.__version__
    )


def test_the_sources_are_of_the_version_that_is_installed():
    assert numbers(ROOT / "cpp/include") == numbers(Path(echobuf.get_include()))


def test_the_distribution_agrees():
    try:
        assert version("data-echoing") == echobuf.__version__
    except PackageNotFoundError:
        pytest.skip("not installed by pip here")


@pytest.mark.skipif(
    shutil.which("cmake") is None and "CI" not in os.environ, reason="no CMake"
)
def test_cmake_agrees_and_takes_the_same_minor_version(capsys, tmp_path):
    folder = cmake_folder(capsys)
    text = (folder / "echobufConfigVersion.cmake").read_text()
    assert f'set(PACKAGE_VERSION "{echobuf.__version__}")' in text
    major, minor, patch = numbers(ROOT / "cpp/include")
    same = [f"{major}.{minor}", echobuf.__version__]
    others = [f"{major}.{minor + 1}", f"{major + 1}.{minor}"]
    others.append(f"{major}.{minor}.{patch + 1}")
    taken = [v for v in same + others if compatible(folder, v, tmp_path / "find.cmake")]
    assert taken == same


@pytest.mark.skipif(
    shutil.which("nm") is None and "CI" not in os.environ, reason="no binutils"
)
def test_the_module_exports_no_function_that_another_version_could_take():
    (module,) = Path(echobuf.__file__).parent.glob("_core*.so")
    done = subprocess.run(
        ["nm", "--dynamic", "--defined-only", module],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split()[1:] for line in done.stdout.splitlines()]
    functions = [name for kind, name in rows if kind in "TWuVi"]
    assert "PyInit__core" in functions
    assert [name for name in functions if "echobuf" in name] == []


def test_no_other_file_writes_it_down():
    """But CITATION.cff and the changelog: a release changes these and the header."""
    found = echobuf.__version__
    literal = re.compile(rf'(version|VERSION)\W+"?{re.escape(found)}\b')
    files = [ROOT / name for name in ("CMakeLists.txt", "pyproject.toml")]
    files += (ROOT / "python").rglob("*.py")
    files += (ROOT / "cpp").rglob("*.[hc]pp")
    assert len(files) > 100
    assert [str(p) for p in files if literal.search(p.read_text())] == []
    assert f"version: {found}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## [{found}]" in (ROOT / "CHANGELOG.md").read_text()
