"""The picture: it is written, shows its points, and says what it cannot write."""

from __future__ import annotations

import math

import numpy as np
import pytest

import echobuf
from echobuf.analysis.report import Report
from measured import estimate, measurements

RED = (0xD6, 0x27, 0x28)


def red_pixels(path) -> int:
    image_of = pytest.importorskip("PIL.Image")
    with image_of.open(path) as image:
        return int((np.asarray(image.convert("RGB")) == RED).all(axis=-1).sum())


def test_measured_points_are_drawn(tmp_path):
    report = Report(measurements())
    report.plot(tmp_path / "without.png")
    report.plot(str(tmp_path / "with.png"), measured={2: 4e-3, 4: 4.1e-3})
    few, many = (red_pixels(tmp_path / f"{n}.png") for n in ("without", "with"))
    assert 0 < few < many


@pytest.mark.parametrize("suffix", [".pdf", ".SVG"])
def test_other_kinds_of_files(tmp_path, suffix):
    path = tmp_path / f"report{suffix}"
    Report(measurements(0.5, length=None)).plot(path)
    assert path.stat().st_size > 1000


@pytest.mark.parametrize(
    "changes",
    [
        {"step_s": estimate(0.0)},
        {"upstream_second_s": estimate(math.inf)},
        {"upstream_second_s": estimate(0.0), "together_s": estimate(0.0)},
        {"window": 1, "batch_size": 1, "length": 1},
    ],
)
def test_absurd_times_are_drawn(tmp_path, changes):
    path = tmp_path / "report.svg"
    Report(measurements(**changes)).plot(path)
    assert path.stat().st_size > 1000


@pytest.mark.parametrize("name", ["report", "report.docx", "."])
def test_an_unknown_kind_is_refused(tmp_path, name):
    with pytest.raises(echobuf.OptionError, match=r"`path` is .*\.png, \.pdf, \.svg"):
        Report(measurements()).plot(tmp_path / name)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(echobuf.OptionError, match="cannot be written"):
        Report(measurements()).plot(tmp_path / "none" / "report.png")
