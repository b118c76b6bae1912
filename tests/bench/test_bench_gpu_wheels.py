"""bench/gpu/wheels.py: which wheels are installed on a machine without a network."""

import importlib.metadata
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts import BENCH, importable


@pytest.fixture
def wheels(monkeypatch, tmp_path):
    """The module over a checkout of three files, a source each."""
    with importable(monkeypatch, BENCH / "gpu") as load:
        module = load("wheels")
        for place, suffix in zip(module.SOURCES, ("hpp", "cu", "py"), strict=True):
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
    good = wheel(tmp_path / "data_echoing-1-cp312-cp312-linux_x86_64.whl", whole)
    other = wheel(tmp_path / "numpy-2-cp312-cp312-linux_x86_64.whl", {})
    assert wheels.own([good, other]) == [good]
    assert capsys.readouterr().err == ""
    for name in list(whole)[:3]:
        for changed in (
            {**whole, name: "x"},
            {n: whole[n] for n in whole if n != name},
        ):
            bad = wheel(tmp_path / "data_echoing-2-py3-none-any.whl", changed)
            assert wheels.own([bad, good]) == [good]
            assert (
                f"left aside, not of this checkout: {name}" in capsys.readouterr().err
            )


def test_others_are_wheels_of_packages_that_are_not_installed(wheels, monkeypatch):
    installed = [SimpleNamespace(name="numpy")]
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: installed)
    names = ["NumPy-2", "absent_one-1", "data_echoing-1"]
    paths = [Path(f"{name}-py3-none-any.whl") for name in names]
    assert wheels.others(paths) == paths[1:2]
