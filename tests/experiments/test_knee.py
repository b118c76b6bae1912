"""Claim 1: the grid that two lines are fitted to."""

import json
import math

import pytest


@pytest.fixture
def knee(load):
    return load("knee")


def test_a_tiny_run_measures_every_cell(knee, tmp_path, capsys):
    options = ["--windows", "1", "--upstream-us", "20", "--ratios", "2", "4"]
    options += ["--factors", "1", "1.5", "3.3", "8"]
    knee.main([*options, "--out", str(tmp_path)])
    content = json.loads((tmp_path / "knee.json").read_text())
    cells = [(c["ratio"], c["factor"]) for c in content["results"]]
    assert sorted(cells) == [(r, e) for r in (2, 4) for e in (1, 1.5, 3.3, 8)]
    for cell in content["results"]:
        assert cell["formula"] == pytest.approx(
            20e-6 * max(1, cell["factor"] / cell["ratio"])
        )
        assert cell["over_formula"] == cell["seconds"] / cell["formula"]
        assert math.isfinite(cell["seconds"])
        assert math.isfinite(cell["harness_s"])
    assert content["added"] == {"put_us": 0, "draw_us": 0}
    assert [k["fixed"] for k in content["knees"]] == [2]
    assert (tmp_path / "knee.png").read_bytes().startswith(b"\x89PNG")
    assert "R = 2: knee along e at" in capsys.readouterr().out
