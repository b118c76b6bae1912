"""bench/monitor.py measures what it says, and writes it."""

import json

import pytest

from scripts import BENCH, importable


def test_the_script_writes_its_figures(monkeypatch, tmp_path):
    for package in ("nvtx", "prometheus_client", "rich", "tensorboard"):
        pytest.importorskip(package)
    with importable(monkeypatch, BENCH) as load:
        script = load("monitor")
        monkeypatch.setattr(script, "STEPS", 1000)
        arguments = ["monitor.py", "--rounds", "2", "--steps", "32"]
        monkeypatch.setattr("sys.argv", [*arguments, "--out", str(tmp_path)])
        script.main()
    figures = json.loads((tmp_path / "monitor.json").read_text())
    assert {"TensorBoard", "Prometheus", "Progress"} < figures["parts_s"].keys()
    assert all(seconds >= 0 for seconds in figures["parts_s"].values())
    assert figures["share_by_parts"] > 0
    assert [len(row) for row in figures["rounds"].values()] == [2, 2]
