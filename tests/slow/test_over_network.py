"""Claim 4: the digits over a network, to an easy target."""

import json
from dataclasses import replace

import pytest

for module in ("torch", "rich", "matplotlib", "PIL", "sklearn"):
    pytest.importorskip(module, reason="needs the extra data-echoing[demo]")


@pytest.fixture
def over_network(load, monkeypatch):
    """The experiment, with one evaluation after few steps, and a fast server."""
    module = load("over_network")
    quick = {"evaluate_every": 10, "smoothing": 1, "calibration_s": 0.1}
    quick = replace(module.BASE, bandwidth_kb_s=2000.0, **quick)
    monkeypatch.setattr(module, "BASE", quick)
    return module


def test_a_tiny_run_measures_every_way(over_network, tmp_path, capsys):
    options = ["--target", "0.01", "--rates", "0.03", "--seeds", "4", "7"]
    options += ["--factors", "5", "2"]
    assert over_network.main([*options, "--out", str(tmp_path)]) == 0
    content = json.loads((tmp_path / "over_network.json").read_text())
    assert content["factors"] == [2, 5]
    first, second = content["seeds"]
    assert (first["seed"], second["seed"]) == (4, 7)
    assert first["order"] == ["none", "e = 2", "e = 5"]
    assert second["order"] == ["e = 2", "e = 5", "none"]
    for seed in content["seeds"]:
        assert seed["left_out"] == []
        without = seed["ways"]["none"]
        assert (without["reached"], without["e"]) == (True, 1)
        assert without["factor"] <= 1
        for e in (2, 5):
            echoed = seed["ways"][f"e = {e}"]
            assert (echoed["reached"], echoed["e"]) == (True, e)
            assert echoed["ceiling"] == min(e, seed["R"])
            assert echoed["speedup"] == without["seconds"] / echoed["seconds"]
            assert echoed["factor"] <= e
    for e in (2, 5):
        total = content["summary"][f"e = {e}"]
        by_seed = [seed["ways"][f"e = {e}"] for seed in content["seeds"]]
        speedups = [one["speedup"] for one in by_seed]
        assert total["speedup"]["seeds"] == dict(zip("47", speedups, strict=True))
        assert total["speedup"]["least"] == min(speedups)
        assert total["speedup"]["most"] == max(speedups)
        assert total["speedup"]["median"] == pytest.approx(sum(speedups) / 2)
        for name in ("fresh", "steps", "ceiling"):
            assert total[name] == pytest.approx(sum(one[name] for one in by_seed) / 2)
    assert content["device"] == "cpu"
    assert set(content["learning_rates"]) == {"none", "e = 2", "e = 5"}
    assert (tmp_path / "over_network.png").read_bytes().startswith(b"\x89PNG")
    assert "times sooner" in capsys.readouterr().out
