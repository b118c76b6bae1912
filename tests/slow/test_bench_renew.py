"""bench/renew.py runs, where the peers are not installed, too."""

import json
import sys

import pytest

from scripts import BENCH, importable

pytest.importorskip("torch")


def test_the_benchmark_of_renewed_images_runs(tmp_path, monkeypatch):
    with importable(monkeypatch, BENCH) as load:
        script = load("renew")
        options = ["--items", "40", "--rounds", "1", "--only", "echobuf"]
        monkeypatch.setattr(sys, "argv", ["renew.py", *options, "--out", str(tmp_path)])
        script.main()
    figures = json.loads((tmp_path / "renew.json").read_text())
    assert figures["results"]["echobuf, kept"]["median_s"] > 0
    assert figures["results"]["echobuf, renewed"]["median_s"] > 0
    counts = figures["counts"]["echobuf"]
    assert counts["made"] == [40, *[10] * 8]
    assert counts["made_again_after_a_kill"] == 0
    assert 40 * 150_528 < counts["disk_bytes"] < 41 * 160_000
