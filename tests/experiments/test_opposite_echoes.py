"""Every second echo is augmented the opposite way; and the script's report."""

import itertools
import json
import math
from collections import defaultdict

import numpy as np
import pytest

from echobuf.transforms import RandomWindow


@pytest.fixture
def numbered(load):
    """A workload whose examples tell their number and where they were cut."""
    load("opposite_echoes")
    base = load("workloads.workload").Workload

    class Numbered(base):
        records = (np.arange(4096)[:, None] * 100 + np.arange(10),)
        transform = property(lambda self: {0: [RandomWindow(5)]})
        about = property(lambda self: {})

        def learner(self, seed, rate, device, width):
            raise NotImplementedError

    return Numbered()


@pytest.mark.parametrize("kind", ["before", "opposite"])
def test_pairs_of_echoes_are_cut_at_opposite_places(load, numbered, kind):
    running, conditions = load("fresh.run"), load("fresh.conditions")
    condition = conditions.Condition(kind, 4)
    run = running.Run("numbered", condition, 0.1, 3, most_fresh=4096)
    places = defaultdict(list)
    for _, (leaf,) in itertools.islice(running.batches(run, numbered), 64):
        for row in leaf:
            places[row[0] // 100].append(row[0] % 100)
    pairs = [(each[0], each[1]) for each in places.values() if len(each) > 1]
    assert len(pairs) > 100
    opposite = sum(first + second == 5 for first, second in pairs)
    assert (opposite == len(pairs)) == (kind == "opposite")


@pytest.mark.parametrize("name", ["images", "text", "mirrored"])
def test_workloads_have_an_augmentation_that_alternates(load, name):
    load("opposite_echoes")
    chosen = load("workloads").workload(name)
    for chain, alternating in zip(
        chosen.transform.values(), chosen.alternating.values(), strict=True
    ):
        kinds = [type(operation) for operation in chain]
        assert kinds == [type(operation) for operation in alternating]
        assert not any(operation.alternate for operation in chain)
        assert alternating[-1].alternate


def test_conditions_come_in_pairs_and_without_time_the_script_reports(
    load, tmp_path, monkeypatch
):
    script, searching = load("opposite_echoes"), load("fresh.search")
    chosen = load("workloads").workload("text")
    wanted = load("fresh.conditions").opposite_conditions()
    log = load("fresh.run_log").CountLog(
        tmp_path / "opposite_echoes.jsonl", {"text": script.settings_of(chosen)}
    )

    def count(run):
        factor = run.condition.factor * (2 if run.condition.kind == "opposite" else 1)
        away = abs(5 * math.log10(run.rate) + 9)
        return round(1000 / factor * (1 + away) + run.seed % 7)

    found = script.counter(log, count, math.inf)
    search = searching.Search("text", chosen.rates, chosen.most_fresh, found)
    tuned = script.explore({"text": search}, wanted, 1)["text"]
    assert [pair["factor"] for pair in script.compared(tuned)] == [2, 4, 8, 16]
    arguments = ["--seconds", "0", "--out", str(tmp_path), "--workloads", "text"]
    monkeypatch.setattr("sys.argv", ["opposite_echoes.py", *arguments])
    script.main()
    told = json.loads((tmp_path / "opposite_echoes.json").read_text())
    text = told["workloads"]["text"]
    assert text["conditions_not_done"] == 0
    assert [pair["seeds_with_fewer"] for pair in text["compared"]] == [5] * 4
    assert all(0.4 < pair["ratio"] < 0.6 for pair in text["compared"])
