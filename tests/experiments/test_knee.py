"""Claim 1: where two lines meet, and the grid that they are fitted to."""

import json
import math

import numpy as np
import pytest

FACTORS = (1, 1.5, 2, 3.3, 5, 8, 12, 16)


@pytest.fixture
def knee(load):
    return load("knee")


def exact(knee, ratios=(2, 3, 4, 5, 6, 8), factors=FACTORS, t_upstream=150e-6):
    """The grid as the formula has it."""
    formula = {
        (ratio, factor): t_upstream * max(1, factor / ratio)
        for ratio in ratios
        for factor in factors
    }
    return [knee.Cell(*key, seconds, seconds) for key, seconds in formula.items()]


@pytest.mark.parametrize("seed", range(20))
def test_exact_lines_meet_where_they_do(load, seed):
    rng = np.random.default_rng(seed)
    at, level, slope = rng.uniform(2, 10), 10 ** rng.uniform(-6, 3), rng.uniform(0.1, 9)
    below, above = (rng.integers(2, 6) for _ in range(2))
    x = np.sort([*rng.uniform(0, at, below), *rng.uniform(at, 3 * at, above)])
    found = load("two_lines").fit(x, level * (1 + slope * np.maximum(0, x - at)))
    assert found.knee == pytest.approx(at)
    assert found.level == pytest.approx(level)
    assert found.slope == pytest.approx(level * slope)


def test_the_formula_has_its_knee_at_r_whichever_way_it_is_read(knee):
    found = knee.knees(exact(knee))
    along_e = [k for k in found if k.along == "e"]
    along_t = [k for k in found if k.along == "t_downstream"]
    assert [k.fixed for k in along_e] == [2, 3, 4, 5, 6, 8]
    assert [k.fixed for k in along_t] == [3.3, 5]
    for one in found:
        assert one.formula == one.fixed
        assert one.measured == pytest.approx(one.fixed)


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
