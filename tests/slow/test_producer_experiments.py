"""The experiments on producers on the device: runs, summaries and files."""

import json
import runpy

import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")


def test_steps_to_the_target_are_those_of_the_first_evaluation_there(load, tmp_path):
    ratio = load("replay_ratio")
    ratio.main(["--seeds", "1", "--steps", "3072", "--out", str(tmp_path)])
    content = json.loads((tmp_path / "replay_ratio.json").read_text())
    conditions = content["conditions"]
    assert {name: row["steps"] for name, row in conditions.items()} == {
        **dict.fromkeys(["1", "2", "4", "8", "16"], 3072),
        "1, 8 times the steps": 8 * 3072,
    }
    # A pass for each segment of 8,192 / factor transitions that has come.
    assert [row["updates"] for row in conditions.values()] == [0, 0, 8, 24, 42, 96]
    assert (tmp_path / "replay_ratio.png").read_bytes().startswith(b"\x89PNG")
    run = runpy.run_path(str(ratio.EXAMPLE))["Run"]([0, 5, 9], [-900, -399, -500], 3)
    row = ratio.summary([run, run])
    assert row["steps_to_target"] == [5, 5]
    assert row["return_after"] == -500


def test_errors_are_told_for_each_share(load, tmp_path):
    forecasts = load("own_forecasts")
    forecasts.main(["--seeds", "1", "--updates", "5", "--out", str(tmp_path)])
    content = json.loads((tmp_path / "own_forecasts.json").read_text())
    assert set(content["one_of"]) == {"1", "4", "8"}
    for share, row in content["one_of"].items():
        (errors,) = content["errors"][share]
        assert row["error_at_60"]["median"] == errors[-1]
    assert (tmp_path / "own_forecasts.png").read_bytes().startswith(b"\x89PNG")
