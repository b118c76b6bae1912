"""bench/gpu/wheels.py: which wheels are installed on a machine without a network."""

import importlib.metadata
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import echobuf
from scripts import BENCH, importable

SUFFIXES = ("hpp", "cu", "py")


@pytest.fixture
def wheels(monkeypatch, tmp_path):
    """The module over a checkout of three files, a source each."""
    with importable(monkeypatch, BENCH / "gpu") as load:
        module = load("wheels")
        for place, suffix in zip(module.SOURCES, SUFFIXES, strict=True):
            folder = tmp_path / suffix
            folder.mkdir()
            (folder / f"file.{suffix}").write_text(place)
            monkeypatch.setitem(module.SOURCES, place, folder)
        yield module


def wheel(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_a_wheel_of_another_checkout_is_left_aside(wheels, tmp_path, capsys):
    whole = {
        "echobuf/include/echobuf/file.hpp": "echobuf/include/echobuf/",
        "echobuf/kernels/file.cu": "echobuf/kernels/",
        "echobuf/file.py": "echobuf/",
        "echobuf/_core.so": "native",
    }
    version = wheels.version()
    good = wheel(
        tmp_path / f"data_echoing-{version}-cp312-cp312-linux_x86_64.whl", whole
    )
    other = wheel(tmp_path / "numpy-2-cp312-cp312-linux_x86_64.whl", {})
    assert wheels.own([good, other]) == [good]
    assert capsys.readouterr().err == ""
    for name in list(whole)[:3]:
        for changed in (
            {**whole, name: "x"},
            {n: whole[n] for n in whole if n != name},
        ):
            bad = wheel(tmp_path / f"data_echoing-{version}-py3-none-any.whl", changed)
            assert wheels.own([bad, good]) == [good]
            assert (
                f"left aside, not of this checkout: {name}" in capsys.readouterr().err
            )


def test_a_wheel_as_the_build_makes_it_is_taken(monkeypatch, tmp_path, capsys):
    """It has a file that is generated, and the real checkout need not have it."""
    with importable(monkeypatch, BENCH / "gpu") as load:
        wheels = load("wheels")
        files = {
            place + file.relative_to(folder).as_posix(): file.read_text()
            for place, folder in wheels.SOURCES.items()
            for file in folder.rglob("*")
            if file.suffix in {".py", ".hpp", ".cu"}
        }
        files["echobuf/_version.py"] = '__version__: str = "as it was generated"'
        name = f"data_echoing-{echobuf.__version__}-cp312-cp312-linux_x86_64.whl"
        whole = wheel(tmp_path / name, files)
        assert wheels.own([whole]) == [whole]
        assert capsys.readouterr().err == ""
        files["echobuf/buffer.py"] += "\n"
        assert wheels.own([wheel(whole, files)]) == []
        assert "not of this checkout: echobuf/buffer.py" in capsys.readouterr().err


def test_a_wheel_of_another_version_is_left_aside(wheels, tmp_path, capsys):
    files = {
        place + f"file.{s}": place
        for place, s in zip(wheels.SOURCES, SUFFIXES, strict=True)
    }
    for number, taken in ((wheels.version(), True), ("0.0.9", False)):
        path = tmp_path / f"data_echoing-{number}-py3-none-any.whl"
        assert bool(wheels.own([wheel(path, files)])) is taken
    assert f"version 0.0.9, not {wheels.version()}" in capsys.readouterr().err


def test_others_are_wheels_of_packages_that_are_not_installed(wheels, monkeypatch):
    installed = [SimpleNamespace(name="numpy")]
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: installed)
    names = ["NumPy-2", "absent_one-1", "data_echoing-1"]
    paths = [Path(f"{name}-py3-none-any.whl") for name in names]
    assert wheels.others(paths) == paths[1:2]
