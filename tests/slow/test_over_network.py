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


def test_a_seed_that_fails_loses_none_before_it(over_network, tmp_path, monkeypatch):
    measure = over_network.measure

    def fails_at_7(task, *more):
        if task.settings.seed == 7:
            raise RuntimeError("an illegal memory access was encountered")
        return measure(task, *more)

    monkeypatch.setattr(over_network, "measure", fails_at_7)
    options = ["--target", "0.01", "--rates", "0.03", "--seeds", "4", "7"]
    with pytest.raises(RuntimeError, match="illegal"):
        over_network.main([*options, "--factors", "5", "--out", str(tmp_path)])
    content = json.loads((tmp_path / "over_network.json").read_text())
    assert [seed["seed"] for seed in content["seeds"]] == [4]
    assert content["summary"]["e = 5"]["runs"] == 1
    assert content["seeds_wanted"] == [4, 7]


def test_parts_beyond_the_time_are_left_out_and_a_missed_target_is_no_figure(
    over_network, tmp_path, capsys
):
    options = ["--target", "0.999", "--rates", "0.03", "0.05", "--seeds", "0", "1"]
    options += ["--run-s", "0.2", "--seconds", "0.1", "--factors", "3"]
    assert over_network.main([*options, "--out", str(tmp_path)]) == 1
    content = json.loads((tmp_path / "over_network.json").read_text())
    assert content["seeds"] == []
    assert content["seeds_wanted"] == [0, 1]
    assert content["summary"]["e = 3"] == {"e": 3, "runs": 0, "missed": 0}
    missed = {"0.03": None}
    assert content["tuning"]["fresh"] == {"none": missed, "e = 3": missed}
    printed = capsys.readouterr().out
    assert "left out, no time: learning rates [0.05]" in printed
    assert "left out, no time: seeds [0, 1]" in printed


def test_by_default_seven_factors_and_five_seeds_are_measured(over_network):
    assert over_network.FACTORS == (2, 3, 4, 5, 6, 8, 12)
    assert len(over_network.SEEDS) == 5


@pytest.mark.parametrize("factors", [["1", "2"], ["5", "5"]])
def test_factors_that_are_no_echoing_or_twice_are_refused(over_network, factors):
    with pytest.raises(SystemExit, match="2"):
        over_network.main(["--factors", *factors])


def test_each_seed_begins_with_another_way(load):
    network = load("network_ways")
    ways = network.all_ways([2, 3, 4])
    orders = [network.rotated(ways, turn) for turn in range(4)]
    for place in range(4):
        assert {order[place].key for order in orders} == {way.key for way in ways}
    assert network.rotated(ways, 4) == orders[0] == list(ways)


@pytest.fixture
def scripted(load, monkeypatch):
    """Runs that take seconds on a clock of their own; a factor may miss the target."""
    from echobuf.cli.demo.report import Costs
    from echobuf.cli.demo.settings import Settings
    from echobuf.cli.demo.training import Point, Run, TrainingTask

    script, network = load("over_network"), load("network_ways")
    now, missing = [0.0], set()

    def train(task, condition, seen):
        budget, e = task.settings.budget_s, condition.factor
        wanted = 60.0 / e + task.settings.seed
        seconds = min(wanted, budget + 0.1)
        now[0] += seconds
        point = Point(seconds, 1200 // e, 600, 0.0, e, 0.9, 0.9, True)
        reached = seconds == wanted and e not in missing
        return Run(condition, reached, (point,))

    monkeypatch.setattr(network, "train", train)
    monkeypatch.setattr(network, "calibrate", lambda *_: (Costs(3.5, 1.0), 1e5))
    monkeypatch.setattr(network.time, "perf_counter", lambda: now[0])
    task = TrainingTask(Settings(budget_s=100.0), 0, (), None, None)
    ways = network.all_ways([2, 3, 6])
    rates = dict.fromkeys((way.key for way in ways), 0.03)

    def go(seeds, until):
        kept = []
        found = script.measure_all(
            task, None, ways, rates, seeds, until, lambda so_far: kept.append([*so_far])
        )
        assert kept == [found[: turn + 1] for turn in range(len(found))]
        return found, script.summary(found, ways)

    go.missing = missing
    return go


def test_speedups_are_over_no_echoing_with_the_same_seed(scripted):
    found, total = scripted([0, 4], 1e9)
    assert [next(iter(one.runs)) for one in found] == ["none", "e = 2"]
    assert total["e = 3"]["speedup"]["seeds"] == {0: 3.0, 4: 64 / 24}
    assert total["e = 3"]["speedup"]["median"] == pytest.approx((3 + 64 / 24) / 2)
    assert [total[f"e = {e}"]["ceiling"] for e in (2, 3, 6)] == [2, 3, 3.5]
    assert [total[k]["fresh"] for k in ("none", "e = 6")] == [1200, 200]
    assert "speedup" not in total["none"]


def test_a_factor_that_missed_is_counted_and_has_no_figure(scripted, load):
    scripted.missing.add(6)
    _, total = scripted([0, 4], 1e9)
    assert (total["e = 6"]["missed"], total["e = 6"]["runs"]) == (2, 2)
    assert "speedup" not in total["e = 6"]
    assert "e = 6: no figure, 2 missed" in load("network_summary").text(total)
    scripted.missing.add(1)  # no echoing: then there is nothing to compare with
    _, total = scripted([0], 1e9)
    assert not load("network_summary").has_figure(total)


def test_a_seed_that_time_cuts_short_keeps_its_whole_runs(scripted, capsys):
    """60, 30, 20 and 10 s a seed: after 100 s the third is cut, and missed nothing."""
    found, total = scripted([0, 1], 100.0)
    assert [list(one.runs) for one in found] == [["none", "e = 2"]]
    assert found[0].left_out == ("e = 3", "e = 6")
    assert total["e = 2"]["speedup"]["seeds"] == {0: 2.0}
    assert (total["e = 3"]["runs"], total["e = 3"]["missed"]) == (0, 0)
    printed = capsys.readouterr().out
    assert "left out, no time: seed 0: e = 3, e = 6" in printed
    assert "left out, no time: seeds [1]" in printed
    found, _ = scripted([0, 1], 321.0)  # the clock says 100.1; the second seed: 124 s
    assert [one.seed for one in found] == [0]
    assert "left out, no time: seeds [1]" in capsys.readouterr().out


def test_the_rate_with_the_fewest_fresh_examples_is_taken(load):
    best = load("network_tuning").best
    assert best({0.01: 900, 0.03: 500, 0.05: None}) == 0.03
    assert best({0.01: None, 0.03: None}) == 0.01


@pytest.mark.parametrize(("given", "limit"), [(150.0, 40.0), (3.0, 3.0)])
def test_a_rate_that_never_learns_does_not_use_up_the_time(
    load, monkeypatch, given, limit
):
    from echobuf.cli.demo.settings import Settings
    from echobuf.cli.demo.training import Point, Run, TrainingTask

    tuning, seen = load("network_tuning"), []

    class Server:
        set_bandwidth = staticmethod(lambda bandwidth: None)

    def train(task, way, until, **changed):
        seen.append((way.key, changed["learning_rate"], task.settings.budget_s))
        point = Point(1.0, 500, 10, 0.0, 1.0, 0.9, 0.9, True)
        return Run(way, changed["learning_rate"] < 0.05, (point,))

    monkeypatch.setattr(tuning, "train_quietly", train)
    ways = load("network_ways").all_ways([5])
    task = TrainingTask(Settings(budget_s=given), 0, (), None, None)
    far = float("inf")
    needed = tuning.tune(task, Server, ways, (0.03, 0.05), far, far)
    assert needed == {way.key: {0.03: 500, 0.05: None} for way in ways}
    assert seen == [(w.key, rate, limit) for rate in (0.03, 0.05) for w in ways]


@pytest.mark.parametrize(("least", "width"), [(3, 1), (6, 2), (50, 16), (1e9, 32)])
def test_the_model_grows_until_r_is_to_be_had(load, monkeypatch, least, width):
    """An upstream whose R is `least` with width 1, and falls as the model grows."""
    from echobuf.cli.demo.report import Costs
    from echobuf.cli.demo.settings import Settings
    from echobuf.cli.demo.training import TrainingTask

    tuning = load("network_tuning")

    def calibrate(task, server):
        return Costs(least, task.settings.width), 0.0

    monkeypatch.setattr(tuning, "calibrate", calibrate)
    task = TrainingTask(Settings(ratio=6), 0, (), None, None)
    assert tuning.wide_enough(task, None).settings.width == width
