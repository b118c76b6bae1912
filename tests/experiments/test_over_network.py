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


def test_a_tiny_run_measures_both_ways(over_network, tmp_path, capsys):
    options = ["--target", "0.01", "--rates", "0.03", "--seeds", "4", "7"]
    assert over_network.main([*options, "--out", str(tmp_path)]) == 0
    content = json.loads((tmp_path / "over_network.json").read_text())
    assert [seed["seed"] for seed in content["seeds"]] == [4, 7]
    for seed in content["seeds"]:
        assert seed["ceiling"] == min(5, seed["R"])
        without, echoed = seed["without"], seed["echoed"]
        assert without["reached"]
        assert echoed["reached"]
        assert seed["speedup"] == without["seconds"] / echoed["seconds"]
        assert without["factor"] <= 1
        assert echoed["factor"] <= 5
    total = content["summary"]
    speedups = sorted(seed["speedup"] for seed in content["seeds"])
    assert [total["least"], total["most"]] == speedups
    assert content["device"] == "cpu"
    assert (tmp_path / "over_network.png").read_bytes().startswith(b"\x89PNG")
    assert "times sooner" in capsys.readouterr().out


def test_what_time_does_not_allow_is_left_out_and_a_missed_target_is_no_figure(
    over_network, tmp_path, capsys
):
    options = ["--target", "0.999", "--rates", "0.03", "0.05", "--seeds", "0", "1"]
    options += ["--run-s", "0.2", "--seconds", "0.1"]
    assert over_network.main([*options, "--out", str(tmp_path)]) == 1
    content = json.loads((tmp_path / "over_network.json").read_text())
    assert content["seeds"] == []
    assert content["seeds_wanted"] == [0, 1]
    assert content["summary"] is None
    missed = {"0.03": None}
    assert content["tuning"]["fresh"] == {"none": missed, "before": missed}
    printed = capsys.readouterr().out
    assert "left out, no time: learning rates [0.05]" in printed
    assert "left out, no time: seeds [0, 1]" in printed


def test_the_rate_with_the_fewest_fresh_examples_is_taken(load):
    best = load("network_tuning").best
    assert best({0.01: 900, 0.03: 500, 0.05: None}) == 0.03
    assert best({0.01: None, 0.03: None}) == 0.01


@pytest.mark.parametrize(("least", "width"), [(3, 1), (6, 2), (50, 16), (1e9, 32)])
def test_the_model_grows_until_r_is_to_be_had(load, monkeypatch, least, width):
    """An upstream whose R is `least` with width 1, and falls as the model grows."""
    from echobuf.cli.demo.outcome import Costs
    from echobuf.cli.demo.settings import Settings
    from echobuf.cli.demo.task import Task

    tuning = load("network_tuning")

    def calibrate(task, server):
        return Costs(least, task.settings.width), 0.0

    monkeypatch.setattr(tuning, "calibrate", calibrate)
    task = Task(Settings(ratio=6), 0, (), None, None)
    assert tuning.wide_enough(task, None).settings.width == width
