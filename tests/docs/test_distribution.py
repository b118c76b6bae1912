"""The distribution `data-echoing`: its name everywhere, and what clashes with it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

import pytest

import echobuf
from echobuf import _distributions
from echobuf.cli.main import main

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "bench",
    "cmake",
    "cpp",
    "docs",
    "examples",
    "experiments",
    "python",
    "tests",
)
SUFFIXES = (
    ".cmake",
    ".cpp",
    ".hpp",
    ".in",
    ".md",
    ".py",
    ".pyi",
    ".sh",
    ".toml",
    ".txt",
)
OURS = "data-echoing"


# ---- nothing tells anybody to install another's name


def texts():
    files = [path for path in ROOT.iterdir() if path.suffix in SUFFIXES]
    files += [p for each in FOLDERS for p in (ROOT / each).rglob("*")]
    files.append(ROOT / ".ci" / "run")
    for path in files:
        if path.suffix not in (*SUFFIXES, "") or not path.is_file():
            continue
        if {"results", "build", "__pycache__"} & set(path.parts) or path == Path(
            __file__
        ):
            continue
        yield path.relative_to(ROOT), path.read_text(encoding="utf-8")


def test_nothing_tells_to_install_another_distribution():
    pattern = re.compile(
        r"\bechobuf\\?\[[a-z]|\bechobuf\[\{|pip install (?:-\S+ )*['\"]?echobuf\b"
    )
    assert [str(p) for p, text in texts() if pattern.search(text)] == []


def project():
    tomllib = pytest.importorskip("tomllib")
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_project_is_named_so_and_its_extras_refer_to_themselves():
    about = project()
    extras = about["optional-dependencies"]
    assert about["name"] == OURS == _distributions.NAME
    mine = [r for each in extras.values() for r in each if r.startswith(OURS)]
    assert mine
    for requirement in mine:
        names = re.fullmatch(rf"{OURS}\[([\w,]+)\]", requirement)[1].split(",")
        assert set(names) <= set(extras)
    every = [*about["dependencies"], *(r for each in extras.values() for r in each)]
    assert not [r for r in every if re.match(r"echobuf\b", r)]


def test_extras_that_messages_name_exist():
    extras = set(project()["optional-dependencies"])
    named = {
        name
        for _, text in texts()
        for part in re.findall(rf"{OURS}\\?\[([\w,]+)\\?\]", text)
        for name in part.split(",")
    }
    for _, text in texts():  # of commands, whose hint is made of it
        named |= set(re.findall(r"\brequire\(\"(\w+)\", \{", text))
    assert {"analyze", "demo", "serve"} <= named
    assert named <= extras


def test_what_is_installed_has_the_metadata_of_the_project():
    try:
        about = Distribution.from_name(OURS).metadata
    except PackageNotFoundError:
        pytest.skip("not installed by pip here")
    assert about["Version"] == echobuf.__version__
    assert set(about.get_all("Provides-Extra")) == set(
        project()["optional-dependencies"]
    )


# ---- the other project in the same folder


def distribution(folder, name, version, files):
    """Metadata as pip writes it, of files that are there."""
    rows = []
    for file in files:
        digest = hashlib.sha256((folder / file).read_bytes()).digest()
        code = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        rows.append(f"{file},sha256={code},{(folder / file).stat().st_size}")
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n"
    )
    (info / "RECORD").write_text("\n".join(rows) + "\n")


@pytest.fixture
def installed(tmp_path):
    """A folder as site-packages: this package by links, and its metadata."""
    package = tmp_path / "echobuf"
    package.mkdir()
    for file in Path(echobuf.__file__).parent.iterdir():
        if file.name != "__pycache__":
            (package / file.name).symlink_to(file.resolve())
    core = next(package.glob("_core*.so"))
    files = ["echobuf/__init__.py", "echobuf/_version.py", f"echobuf/{core.name}"]
    distribution(tmp_path, OURS, echobuf.__version__, files)
    return tmp_path


def replaced(folder, name, text):
    path = folder / "echobuf" / name
    path.unlink()
    path.write_text(text)


def python(folder, *arguments):
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-B", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
        env={**kept, "PYTHONPATH": str(folder)},
    )


def refused(folder):
    done = python(folder, "-c", "import echobuf")
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]
    assert line.startswith("ImportError: ")
    assert str(folder / "echobuf") in line
    assert f"{OURS}" in line
    return line


def test_a_healthy_import_reads_no_metadata(installed):
    program = (
        "import sys; before = set(sys.modules); import echobuf; "
        "print(echobuf.__version__, 'echobuf._distributions' in sys.modules)"
    )
    done = python(installed, "-c", program)
    assert done.stdout == f"{echobuf.__version__} False\n", done.stderr


def test_without_native_code_the_import_says_so(installed):
    next((installed / "echobuf").glob("_core*.so")).unlink()
    assert "is not in" in refused(installed)
    distribution(installed, "echobuf", "0.4.0", ["echobuf/__init__.py"])
    line = refused(installed)
    assert "'echobuf' 0.4.0, another project" in line
    assert f"pip uninstall -y echobuf {OURS}, then pip install {OURS}" in line


def test_without_another_distribution_the_advice_is_to_install_it_again(monkeypatch):
    monkeypatch.setattr(_distributions, "other_version", lambda: None)
    again = f"pip install --force-reinstall --no-deps {OURS}"
    said = _distributions.explain_missing(ImportError("undefined symbol"))
    assert "undefined symbol" in said  # of a file that is there
    assert again in said
    assert again in _distributions.explain_mixed("0.1.0", "0.2.0")


def test_files_of_two_versions_are_refused(installed):
    text = (installed / "echobuf" / "_version.py").read_text()
    assert echobuf.__version__ in text
    replaced(installed, "_version.py", text.replace(echobuf.__version__, "9.8.7"))
    line = refused(installed)
    assert "version 9.8.7" in line
    assert f"is of {echobuf.__version__}" in line


THEIRS = '"""Another project."""\n\n__version__ = "0.4.0"\n'


def test_doctor_says_that_the_other_has_overwritten_files(installed):
    replaced(installed, "__init__.py", THEIRS)
    distribution(installed, "echobuf", "0.4.0", ["echobuf/__init__.py"])
    done = python(installed, "-m", "echobuf.cli.main", "doctor")
    assert done.returncode == 1, done.stderr
    assert done.stderr == ""
    said = " ".join(done.stdout.split())
    assert f"echobuf/__init__.py in {installed} is not as {OURS} installed it" in said
    assert "'echobuf' 0.4.0, another project" in said
    done = python(installed, "-m", "echobuf.cli.main", "doctor", "--json")
    assert done.returncode == 1
    content = json.loads(done.stdout)
    assert content["passed"] is False
    assert len(content["troubles"]) == 2


def test_both_distributions_are_named_while_all_files_are_ours(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("echobuf.cli.selftest.CHECKS", ())
    assert main(["doctor"]) == 0
    healthy = capsys.readouterr().out
    (tmp_path / "echobuf").mkdir()
    (tmp_path / "echobuf" / "tray.py").write_text("")
    distribution(tmp_path, "echobuf", "0.4.0", ["echobuf/tray.py"])
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["doctor"]) == 0  # it works, until the other is uninstalled
    out = " ".join(capsys.readouterr().out.split())
    assert "0.4.0" in out
    assert "0.4.0" not in healthy
    assert f"pip uninstall -y echobuf {OURS}" in out
