"""Operations of the user's own: one struct in a header, compiled when it is used."""

import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest

import echobuf
from echobuf.transforms import Custom, Layout, ToDtype

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="needs a C++ compiler"
)
EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_operation"

HEADER = """
#pragma once
#include "echobuf/transform/image.hpp"
#include "echobuf/transform/words.hpp"
namespace mine {
struct Shift {
  float by[3];
  std::int32_t often;
  struct Draw { float sign; };
  ECHOBUF_HD Draw draw(echobuf::transform::Words words,
                       const echobuf::transform::Extent&) const {
    return {words.chance(0.5) ? 1.0f : -1.0f};
  }
  ECHOBUF_HD void pixel(const Draw& d, float* v,
                        const echobuf::transform::Place& at) const {
    for (int c = 0; c < at.extent.channels; ++c)
      v[c] = v[c] + d.sign * by[c] * static_cast<float>(often);
  }
};
struct Nothing {
  struct Draw {};
  ECHOBUF_HD Draw draw(echobuf::transform::Words,
                       const echobuf::transform::Extent&) const { return {}; }
  ECHOBUF_HD float element(const Draw&, float v, int,
                           const echobuf::transform::Place&) const { return v; }
};
}
"""
SETTINGS = {"by": [1.0, 2.0, 3.0], "often": 10}


@pytest.fixture
def header(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "shift.hpp"
    path.write_text(HEADER)
    return path


def drawn(images, *chain, factor=1):
    spec = echobuf.Field(images.shape[1:], images.dtype)
    count = len(images)
    with echobuf.EchoBuffer(
        spec, batch_size=count, window=count, factor=factor, transform=list(chain)
    ) as buffer:
        buffer.put_batch(images)
        buffer.close()
        return list(buffer)


def test_pixels_change_by_settings_and_by_random_numbers(header):
    images = np.full((64, 5, 6, 3), 100, np.uint8)
    shift = Custom(header, "mine::Shift", SETTINGS)
    (batch,) = drawn(images, shift, ToDtype(np.float32))
    signs = np.sign(batch[:, 0, 0, 0] - 100)
    assert 10 < (signs > 0).sum() < 54
    expected = 100 + signs[:, None] * np.array([10.0, 20.0, 30.0])
    assert np.array_equal(batch, np.broadcast_to(expected[:, None, None], batch.shape))


def test_results_of_bytes_are_bytes(header):
    images = np.full((32, 2, 2, 3), 240, np.uint8)
    shift = Custom(header, "mine::Shift", {"by": [0.25, 3.0, 90.0], "often": 1})
    (batch,) = drawn(images, shift)
    assert batch.dtype == np.uint8
    up, down = batch[batch[:, 0, 0, 0] == 240], batch[batch[:, 0, 0, 0] == 239]
    assert len(up) + len(down) == 32
    assert np.array_equal(up[0, 0, 0], [240, 243, 255])
    assert np.array_equal(down[0, 0, 0], [239, 237, 150])


def test_a_struct_without_members_and_planar_images(header):
    images = np.random.default_rng(0).random((3, 3, 4, 7), np.float32)
    (batch,) = drawn(images, Layout("CHW"), Custom(header, "mine::Nothing"))
    assert sorted(batch.sum((1, 2, 3))) == sorted(images.sum((1, 2, 3)))
    assert batch.shape == images.shape


def test_an_operation_is_compiled_once(header, monkeypatch):
    images = np.zeros((1, 2, 2, 3), np.float32)
    shift = Custom(header, "mine::Shift", SETTINGS)
    drawn(images, shift)
    libraries = list((header.parent / "cache" / "echobuf").glob("*.so"))
    assert len(libraries) == 1
    header.write_text(HEADER + "// another version\nstruct More {};\n")
    drawn(images, shift)
    libraries = list((header.parent / "cache" / "echobuf").iterdir())
    assert sorted(path.suffix for path in libraries) == [".so", ".so"]


@pytest.mark.parametrize(
    ("struct", "settings", "words"),
    [
        ("mine::Shift", {"by": [1.0, 2.0], "often": 1}, "by is float"),
        ("mine::Shift", {"often": 1, "by": [1.0] * 3}, "comes at byte"),
        ("mine::Shift", {"by": [1.0] * 3, "often": 1.5}, "often is float"),
        ("mine::Shift", {"by": [1.0] * 3}, "name all of its members"),
        ("mine::Shift", {"by": [1.0] * 3, "other": 1}, "other"),
        ("mine::Missing", {}, "Missing"),
    ],
)
def test_settings_that_are_not_the_members(header, struct, settings, words):
    images = np.zeros((1, 2, 2, 3), np.float32)
    with pytest.raises(echobuf.OptionError, match=words):
        drawn(images, Custom(header, struct, settings))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"header": "missing.hpp"}, "header"),
        ({"struct": "a b"}, "struct"),
        ({"struct": None}, "struct"),
        ({"settings": [1]}, "settings"),
        ({"settings": {"a": "b"}}, "settings"),
        ({"settings": {1: 2}}, "settings"),
        ({"settings": {"a": [[1.0]]}}, "settings"),
        ({"settings": {"a": 1j}}, "settings"),
    ],
)
def test_bad_arguments_are_named(header, changed, words):
    arguments = {"header": header, "struct": "mine::Shift", "settings": SETTINGS}
    with pytest.raises(echobuf.OptionError, match=f"`{words}"):
        Custom(**{**arguments, **changed})


def test_no_compiler_is_said(header, monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(header.parent))
    with pytest.raises(echobuf.OptionError, match=r"install g\+\+"):
        drawn(np.zeros((1, 2, 2, 3), np.float32), Custom(header, "mine::Nothing"))


def test_a_cache_that_cannot_be_written_to_is_said(header, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(header))  # a file
    with pytest.raises(echobuf.OptionError, match="XDG_CACHE_HOME"):
        drawn(np.zeros((1, 2, 2, 3), np.float32), Custom(header, "mine::Nothing"))


def test_the_example_runs(header, capsys):
    runpy.run_path(str(EXAMPLE / "vignette.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "Vignette" in printed
    assert printed.count("middle 0.78") == 2
